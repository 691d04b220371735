"""OCD's rows: the state and the action as JSON text, the reward on OCD's own scale, and what is known of the decision.

The reward is the raw one, -5 to 5, as OCD keeps it: (r + 2) / 4 is what training here calls reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rl.base.records import TraceRecord
from rl.collect.decisions import canonical
from rl.collect.traces.records import trace_record, with_feedback
from rl.data_formatter.scored import NO_REWARD
from rl.dataset_builder.exporting.base import BELOW, SILENT, Column, ExportedRow, RowFormat
from rl.models import Trace, prompt_key
from rl.rewards.decision import feedback_word

CHUNK = 500
_OPINIONS = ("rating", "comparison", "correction")


class Decision(RowFormat):
    """Only answers with an action; others are not decisions and are not read."""

    columns: ClassVar[dict[str, Column]] = {
        "prompt": "text",
        "completion": "text",
        "reward": "number",
        "confidence": "number",
        "metadata": "json",
    }

    def rows(self) -> Iterator[ExportedRow]:
        decisions = with_feedback(Trace.objects.filter(agent=self._agent, action__isnull=False))
        for trace in decisions.order_by("prompt_key", "id").iterator(chunk_size=CHUNK):
            record = trace_record(trace)
            self._tally.read += len(record.feedback)
            reward = _raw_reward(trace)
            if reward is None:
                self._tally.skipped[NO_REWARD] += 1
            elif self._wants(trace, record):
                yield self._row(prompt_key(record.prompt), _values(trace, record, reward))

    def _wants(self, trace: Trace, record: TraceRecord) -> bool:
        has_opinion = any(event.kind in _OPINIONS for event in record.feedback)
        least = self._filters.min_reward
        if self._filters.require_feedback and not has_opinion:
            self._tally.skipped[SILENT] += 1
        elif least is not None and (trace.reward is None or trace.reward < least):
            self._tally.skipped[BELOW] += 1
        else:
            return True
        return False


def _component(trace: Trace) -> Mapping[str, Any]:
    """What the reward ``decision`` found out."""
    stored = trace.rewards.get("decision") if isinstance(trace.rewards, Mapping) else None
    details = stored.get("details") if isinstance(stored, Mapping) else None
    return details if isinstance(details, Mapping) else {}


def _raw_reward(trace: Trace) -> float | None:
    reward = _component(trace).get("reward")
    return float(reward) if isinstance(reward, (int, float)) else None


def _values(trace: Trace, record: TraceRecord, reward: float) -> dict[str, Any]:
    known = trace.details.get("decision") if isinstance(trace.details, Mapping) else None
    decision = known if isinstance(known, Mapping) else {}
    return {
        "prompt": record.question if trace.state is None else canonical(trace.state),
        "completion": canonical(trace.action),
        "reward": reward,
        "confidence": decision.get("confidence"),
        "metadata": {
            "decisionId": trace.external_id or str(trace.pk),
            "itemId": decision.get("itemId"),
            "opusId": decision.get("opusId"),
            "userFeedback": feedback_word(record, decision) or None,
            "rewardComponents": decision.get("rewardComponents") or _component(trace).get("components") or {},
            "createdAt": trace.occurred_at.isoformat(),
        },
    }
