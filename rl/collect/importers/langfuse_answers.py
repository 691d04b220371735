"""Langfuse's traces and generations as answers. Input and output may be text, messages, or any JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from rl.collect.importers import chat
from rl.collect.importers.fields import Refused, count, identity, moment, number, others, required_text, text
from rl.collect.importers.langfuse_values import is_scores
from rl.collect.limits import MAX_WHOLE_NUMBER
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace

_KNOWN = (
    "id",
    "input",
    "output",
    "timestamp",
    "startTime",
    "endTime",
    "createdAt",
    "updatedAt",
    "projectId",
    "sessionId",
    "scores",
    "observations",
    "comments",
    "latency",
    "totalCost",
    "usageDetails",
    "usage",
    "inputTokens",
    "outputTokens",
    "providedModelName",
    "model",
    "bookmarked",
    "public",
)


def answer(row: dict[str, Any], where: str, feedback: tuple[ImportedFeedback, ...]) -> ImportedTrace:
    """``row`` has the names of Langfuse's API. Raises Refused."""
    talk = _talk(_parse_json(row.get("input")), _parse_json(row.get("output")))
    rest = {name: value for name, value in others(row, _KNOWN).items() if not is_scores(name, value)}
    usage = row.get("usageDetails") or row.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return replace(
        chat.trace(where, talk, rest, feedback, external_id=_id(row)),
        session_id=identity(row, "sessionId"),
        model_version=(text(row, "providedModelName") or text(row, "model"))[:200],
        tokens_in=count(usage, "input") or count(row, "inputTokens") or None,
        tokens_out=count(usage, "output") or count(row, "outputTokens") or None,
        cost=_not_negative(number(row, "totalCost")),
        duration_ms=_duration(row),
        occurred_at=moment(row, "timestamp") or moment(row, "startTime") or moment(row, "createdAt"),
    )


def _id(row: dict[str, Any]) -> str:
    required_text(row, "id")
    return identity(row, "id")


def _not_negative(value: float | None) -> float | None:
    return value if value is not None and value > 0 else None


def _duration(row: dict[str, Any]) -> int | None:
    """In milliseconds; the latency is in seconds, but for old exports."""
    start, end = moment(row, "startTime"), moment(row, "endTime")
    seconds = (end - start).total_seconds() if start and end else number(row, "latency") or 0.0
    return round(seconds * 1000) if 0 < seconds * 1000 < MAX_WHOLE_NUMBER else None


def _parse_json(value: Any) -> Any:
    """Exports write JSON as text."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _talk(prompt_input: Any, output: Any) -> chat.Talk:
    """Messages where they are messages, else the JSON itself as the text of one."""
    prompt_messages = prompt_input.get("messages") if isinstance(prompt_input, dict) else prompt_input
    answer_messages = output.get("messages") if isinstance(output, dict) and "messages" in output else output
    answer_messages = [answer_messages] if isinstance(answer_messages, dict) else answer_messages
    if isinstance(answer_messages, list):
        answer_messages = [
            {"role": "assistant", **message} if isinstance(message, dict) else message for message in answer_messages
        ]
    for prompt in (prompt_messages, [{"role": "user", "content": _text(prompt_input)}]):
        for response in (answer_messages, [{"role": "assistant", "content": _text(output)}]):
            if isinstance(prompt, list) and isinstance(response, list):
                try:
                    talk = chat.talk([*prompt, *response], "input and output")
                except Refused:
                    continue
                if talk.response or talk.tool_calls:
                    return talk
    raise Refused("has no output")


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
