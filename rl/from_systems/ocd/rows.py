"""A stored decision as OCD's calls write it: its row, its message row, its training row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rl.base.records import FeedbackRecord, Message, TraceRecord
from rl.collect.traces.records import trace_record
from rl.from_systems.ocd.exported_rows import asked_of, components_of, raw_reward, record_of
from rl.from_systems.ocd.records import canonical
from rl.from_systems.ocd.words import feedback_word
from rl.models import Trace
from rl.models.traces import HELD_OUT, NEVER, SPLIT
from rl.rewards.decision import last_outcomes

STATUS_CHANGE = "statusChangeId"
"""Field of a filing: the change of status that its item got by it."""
_KEPT = ("itemId", "opusId", "userId", "modelVersion", "confidence", "reasoning", "alternativeActions", "nextState")
COMPLETIONS: Mapping[str, Sequence[str]] = {
    "FILER": ("swimlane", "priority", "labels", "urgency", "reasoning", "confidence"),
    "LIBRARIAN": ("findings", "reasoning"),
    "PRIORITIZER": ("recommended_item_id", "confidence", "reasoning", "alternativeItems"),
    "STORER": (
        "integrationDecision",
        "location",
        "method",
        "newSectionHeading",
        "suggestedContent",
        "confidence",
        "reasoning",
    ),
    "RETRIEVER": ("generatedContent", "sourceCitations", "confidence", "reasoning"),
}
"""Keys of a completion, by type of agent; other types have the keys of their action."""
_OTHER_NAMES = {"recommended_item_id": "recommendedItemId", "alternativeItems": "alternativeActions"}


def decision_row(trace: Trace) -> dict[str, Any]:
    """OCD's row of a decision; the trace with its current feedback."""
    record, about = trace_record(trace), record_of(trace)
    rating, correction, observed = (_last(record, kind) for kind in ("rating", "correction", "outcome"))
    split = trace.details.get(SPLIT) if isinstance(trace.details, Mapping) else None
    return {
        "id": trace.external_id or str(trace.pk),
        "agentType": trace.agent.name,
        "state": trace.state,
        "action": trace.action,
        **{name: about.get(name) for name in _KEPT},
        "reward": raw_reward(trace),
        "rewardComponents": components_of(trace) or None,
        "rewardComputedAt": _text(trace.rewarded_at),
        "userFeedback": feedback_word(record) or None,
        "userCorrection": _parse(correction.text) if correction else None,
        "feedbackAt": _text(rating.rated_at) if rating else None,
        "outcomeMetrics": _outcomes(record, about) or None,
        "outcomeObservedAt": _text(observed.rated_at) if observed else None,
        "isTrainingData": split != NEVER and about.get("isTrainingData") is not False,
        "isValidationData": split == HELD_OUT,
        "createdAt": _text(trace.occurred_at),
        **({STATUS_CHANGE: about[STATUS_CHANGE]} if STATUS_CHANGE in about else {}),
        "item": about.get("item") or _reference(about.get("itemId"), "title", "status"),
        "opus": about.get("opus") or _reference(about.get("opusId"), "name"),
    }


def message_row(trace: Trace) -> dict[str, Any]:
    """``{"messages", "reward", "metadata"}``."""
    names = ("itemId", "opusId", "userFeedback", "userCorrection", "outcomeMetrics", "createdAt", "rewardComputedAt")
    row = decision_row(trace)
    metadata = {"decisionId": row["id"], "agentType": row["agentType"], **{name: row[name] for name in names}}
    answer = {"role": "assistant", "content": canonical(completion(trace))}
    return {"messages": [*_prompt(trace), answer], "reward": row["reward"], "metadata": metadata}


def training_row(trace: Trace) -> dict[str, Any]:
    """``{"prompt", "completion", "reward", "confidence", "metadata"}``; the prompt has OCD's marks of who speaks."""
    names = ("itemId", "opusId", "userFeedback", "rewardComponents", "createdAt")
    row = decision_row(trace)
    prompt = "".join(f"<|{message['role']}|>\n{message['content']}\n" for message in _prompt(trace))
    return {
        "prompt": f"{prompt}<|assistant|>\n",
        "completion": canonical(completion(trace)),
        "reward": row["reward"],
        "confidence": row["confidence"],
        "metadata": {"decisionId": row["id"], **{name: row[name] for name in names}},
    }


def completion(trace: Trace) -> Any:
    """What the agent should say: the action, in the keys of its type."""
    keys = COMPLETIONS.get(trace.agent.name.upper())
    if keys is None or not isinstance(trace.action, Mapping):
        return trace.action
    known = {**record_of(trace), **trace.action}
    urgency = "On Hold" if str(known.get("status") or "").upper() == "ON_HOLD" else "To Do"
    values = {"urgency": urgency, **{name: known.get(_OTHER_NAMES[name]) for name in _OTHER_NAMES}}
    return {name: known.get(name, values.get(name)) for name in keys}


def _prompt(trace: Trace) -> list[Message]:
    asked, system = asked_of(trace), trace.agent.system_prompt
    if not system or asked[0]["role"] == "system":
        return [*asked]
    return [Message(role="system", content=system), *asked]


def _last(record: TraceRecord, kind: str) -> FeedbackRecord | None:
    return next((event for event in reversed(record.feedback) if event.kind == kind), None)


def _outcomes(record: TraceRecord, about: Mapping[str, Any]) -> dict[str, Any]:
    others = about.get("outcomeMetrics")
    return {**(others if isinstance(others, Mapping) else {}), **last_outcomes(record)}


def _reference(own_id: Any, *unknown: str) -> dict[str, Any] | None:
    return {"id": own_id, **dict.fromkeys(unknown)} if own_id else None


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
