"""A stored decision as OCD writes it: its row, its message row and its training row in calls, and its exported row: the
state and the action as JSON text, the reward on OCD's own scale, and what is known of the decision.

The reward is the raw one, -5 to 5, as OCD keeps it: (r + 2) / 4 is what training here calls reward."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from rl.base.records import Message
from rl.collect.traces.records import trace_record, with_feedback
from rl.data_formatter.scored import NO_REWARD
from rl.dataset_builder.exporting import BELOW, SILENT, Column, ExportedRow, RowFormat
from rl.dataset_builder.wording import ask_agent
from rl.from_systems.ocd.formulas import feedback_word
from rl.from_systems.ocd.records import canonical
from rl.models import Trace, prompt_key
from rl.models.traces import HELD_OUT, NEVER, SPLIT, may_be_used
from rl.rewards.decision import LIMIT, last_outcomes


class DecisionRows(RowFormat):
    """Only answers with an action; others are not decisions and are not read. ``min_reward`` is of the raw reward."""

    columns: ClassVar[dict[str, Column]] = {
        "prompt": "text",
        "completion": "text",
        "reward": "number",
        "confidence": "number",
        "metadata": "json",
    }
    rewards: ClassVar[tuple[float, float]] = (-LIMIT, LIMIT)

    def rows(self) -> Iterator[ExportedRow]:
        decisions = with_feedback(Trace.objects.filter(may_be_used(), agent=self._agent, action__isnull=False))
        for trace in decisions.order_by("prompt_key", "id").iterator(chunk_size=500):
            record = trace_record(trace)
            self._tally.read += len(record.feedback)
            reward = raw_reward(trace)
            has_opinion = any(event.kind in ("rating", "comparison", "correction") for event in record.feedback)
            if reward is None:
                self._tally.skipped[NO_REWARD] += 1
            elif self._filters.require_feedback and not has_opinion:
                self._tally.skipped[SILENT] += 1
            elif self._filters.min_reward is not None and reward < self._filters.min_reward:
                self._tally.skipped[BELOW] += 1
            else:
                texts = {"prompt": asked_of(trace)[-1]["content"], "completion": canonical(trace.action)}
                values = {**training_row(trace), **texts}
                yield self._row(prompt_key(record.prompt), values)


def _component(trace: Trace) -> Mapping[str, Any]:
    """What the reward ``decision`` found out."""
    stored = trace.rewards.get("decision") if isinstance(trace.rewards, Mapping) else None
    details = stored.get("details") if isinstance(stored, Mapping) else None
    return details if isinstance(details, Mapping) else {}


def raw_reward(trace: Trace) -> float | None:
    """-5 to 5; None where it was not calculated yet, or nothing is known."""
    reward = _component(trace).get("reward")
    return float(reward) if isinstance(reward, (int, float)) else None


def components_of(trace: Trace) -> dict[str, Any]:
    """Those that came with the decision, else scale to name to value of those that were calculated."""
    stored = record_of(trace).get("rewardComponents")
    if isinstance(stored, Mapping) and stored:
        return dict(stored)
    calculated = _component(trace).get("components") or {}
    return {scale: {name: part["value"] for name, part in parts.items()} for scale, parts in calculated.items()}


def record_of(trace: Trace) -> Mapping[str, Any]:
    """The decision as it came, without what has a place of its own; empty where the trace is none."""
    known = trace.details.get("decision") if isinstance(trace.details, Mapping) else None
    return known if isinstance(known, Mapping) else {}


def asked_of(trace: Trace) -> tuple[Message, ...]:
    """As the agent is asked; the last message is the user's."""
    text = trace.question if trace.state is None else canonical(trace.state)
    return ask_agent(trace.agent, [Message(role="user", content=text)])


STATUS_CHANGE = "statusChangeId"
"""Field of a filing: the change of status that its item got by it."""
_KEPT = ("itemId", "opusId", "userId", "modelVersion", "confidence", "reasoning", "alternativeActions", "nextState")
COMPLETIONS: Mapping[str, Sequence[str]] = {
    "FILER": ("swimlane", "priority", "labels", "urgency", "reasoning", "confidence"),
    "LIBRARIAN": ("findings", "reasoning"),
    "PRIORITIZER": ("recommended_item_id", "confidence", "reasoning", "alternativeItems"),
    "STORER": (
        *("integrationDecision", "location", "method", "newSectionHeading"),
        *("suggestedContent", "confidence", "reasoning"),
    ),
    "RETRIEVER": ("generatedContent", "sourceCitations", "confidence", "reasoning"),
}
"""Keys of a completion, by type of agent; other types have the keys of their action."""
_OTHER_NAMES = {"recommended_item_id": "recommendedItemId", "alternativeItems": "alternativeActions"}


def decision_row(trace: Trace) -> dict[str, Any]:
    """OCD's row of a decision; the trace with its current feedback."""
    record, about = trace_record(trace), record_of(trace)
    last = {event.kind: event for event in record.feedback}
    rating, correction, observed = (last.get(kind) for kind in ("rating", "correction", "outcome"))
    others = about.get("outcomeMetrics")
    outcomes = {**(others if isinstance(others, Mapping) else {}), **last_outcomes(record)}
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
        "outcomeMetrics": outcomes or None,
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


def _reference(own_id: Any, *unknown: str) -> dict[str, Any] | None:
    return {"id": own_id, **dict.fromkeys(unknown)} if own_id else None


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
