"""OCD's decisions: its records as they are (see ``rl.from_systems.ocd.records``), or the rows that it exports for training.

A row is ``{"prompt", "completion": JSON text of the action, "reward", "confidence", "metadata": {decisionId}}``; it has lost
its state and its agent. The prompt is what the agent was told, or that with marks of who speaks. A row of its chats is
``{"messages": [system, user, assistant], "reward", "metadata": {decisionId, agentType}}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rl.collect.importers import chat
from rl.collect.importers.fields import Refused, obj, others, required_text
from rl.collect.importers.rows import SUFFIXES, Record, Rejected, records
from rl.collect.traces.imported import ImportedTrace
from rl.data_formatter.runs import messages_of
from rl.from_systems.ocd.records import read_decision

__all__ = ["SUFFIXES", "read"]
_ROW = ("prompt", "completion", "metadata")
_READ_AS = {
    "state": "the question",
    "prompt": "the question",
    "messages": "the chat",
    "action": "the answer",
    "completion": "the answer",
    "metadata": "the decision",
    "id": "the id of the answer",
    "agentType": "the agent",
    "modelVersion": "the model",
    "createdAt": "the time",
    "userFeedback": "a rating",
    "userId": "the rater",
    "feedbackAt": "the time of the rating",
    "userCorrection": "a correction",
    "outcomeMetrics": "outcomes",
    "outcomeObservedAt": "the time of the outcomes",
    "reward": "the reward",
}
_CHAT = ("messages", "reward", "metadata")


def read(path: Path) -> Iterator[Record | Rejected]:
    """Raises BadFile."""
    return records(path, _decision, lists=("decisions", "data"), columns=_READ_AS)


def _decision(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    if "completion" in row and "state" not in row:
        prompt, text = required_text(row, "prompt"), required_text(row, "completion")
        record = {**others(row, _ROW), **obj(row, "metadata"), "state": prompt, "action": _action(text, "completion")}
        return [replace(_read(record, where), prompt=tuple(messages_of(prompt)), response=text, state=None)]
    if "messages" in row and "state" not in row:
        return [_read_chat(row, where)]
    return [_read(row, where)]


def _read(mapping: Mapping[str, Any], where: str) -> ImportedTrace:
    decision = read_decision(mapping, where)
    if isinstance(decision, Rejected):
        raise Refused(decision.reason)
    return decision


def _read_chat(row: dict[str, Any], where: str) -> ImportedTrace:
    talk, metadata = chat.talk(row["messages"]), obj(row, "metadata")
    record = {
        **others(row, _CHAT),
        **metadata,
        "state": row["messages"],
        "action": _action(talk.response, "the answer"),
    }
    if row.get("reward") or metadata.get("rewardComputedAt"):  # OCD writes 0 where nobody has computed one
        record["reward"] = row.get("reward")
    return replace(_read(record, where), prompt=talk.prompt, response=talk.response, state=None)


def _action(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(f"{name} must be the JSON text of the action") from None
