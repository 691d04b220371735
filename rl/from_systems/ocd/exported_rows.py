"""OCD's rows: the state and the action as JSON text, the reward on OCD's own scale, and what is known of the decision.

The reward is the raw one, -5 to 5, as OCD keeps it: (r + 2) / 4 is what training here calls reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rl.base.records import Message, TraceRecord
from rl.collect.traces.records import trace_record, with_feedback
from rl.data_formatter.scored import NO_REWARD
from rl.dataset_builder.exporting import BELOW, SILENT, Column, ExportedRow, RowFormat
from rl.dataset_builder.wording import ask_agent
from rl.from_systems.ocd.records import canonical
from rl.from_systems.ocd.words import feedback_word
from rl.models import Trace, prompt_key
from rl.models.traces import may_be_used
from rl.rewards.decision import LIMIT

CHUNK = 500
_OPINIONS = ("rating", "comparison", "correction")


class Decision(RowFormat):
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
        for trace in decisions.order_by("prompt_key", "id").iterator(chunk_size=CHUNK):
            record = trace_record(trace)
            self._tally.read += len(record.feedback)
            reward = raw_reward(trace)
            if reward is None:
                self._tally.skipped[NO_REWARD] += 1
            elif self._wants(record, reward):
                yield self._row(prompt_key(record.prompt), _values(trace, record, reward))

    def _wants(self, record: TraceRecord, reward: float) -> bool:
        has_opinion = any(event.kind in _OPINIONS for event in record.feedback)
        least = self._filters.min_reward
        if self._filters.require_feedback and not has_opinion:
            self._tally.skipped[SILENT] += 1
        elif least is not None and reward < least:
            self._tally.skipped[BELOW] += 1
        else:
            return True
        return False


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


def _values(trace: Trace, record: TraceRecord, reward: float) -> dict[str, Any]:
    decision = record_of(trace)
    return {
        "prompt": asked_of(trace)[-1]["content"],
        "completion": canonical(trace.action),
        "reward": reward,
        "confidence": decision.get("confidence"),
        "metadata": {
            "decisionId": trace.external_id or str(trace.pk),
            "itemId": decision.get("itemId"),
            "opusId": decision.get("opusId"),
            "userFeedback": feedback_word(record) or None,
            "rewardComponents": components_of(trace),
            "createdAt": trace.occurred_at.isoformat(),
        },
    }
