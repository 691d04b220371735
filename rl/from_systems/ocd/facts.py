"""What is known of one decision, for OCD's formulas: the person's word, the outcomes, and how its item ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rl.base.records import TraceRecord
from rl.from_systems.ocd.words import feedback_word
from rl.rewards.decision import last_outcomes, number

DONE, ABANDONED = "DONE", "COLD_STORAGE"
"""States of an item."""


@dataclass(frozen=True, slots=True)
class Facts:
    word: str
    """Empty: nobody said anything."""
    confidence: float | None
    action: Any
    corrected_action: Any
    """The action as the newest correction has it; the action itself where nobody corrected it."""
    outcomes: Mapping[str, float]
    status: str
    """Where the item is, as far as the record says so; else empty."""

    @property
    def is_anything_known(self) -> bool:
        return bool(self.word or self.outcomes or self.status in (DONE, ABANDONED))

    @property
    def is_done(self) -> bool:
        return bool(self.outcomes.get("completedSuccessfully", self.status == DONE))

    @property
    def is_abandoned(self) -> bool:
        return bool(self.outcomes.get("abandoned", self.status == ABANDONED))

    def outcome(self, metric: str) -> float:
        """Its last value; 0 where it was not observed."""
        return self.outcomes.get(metric, 0.0)


def facts_of(trace: TraceRecord) -> Facts:
    decision = trace.details.get("decision")
    record = decision if isinstance(decision, Mapping) else {}
    item = record.get("item")
    status = item.get("status") if isinstance(item, Mapping) else ""
    return Facts(
        word=feedback_word(trace),
        confidence=number(record.get("confidence")),
        action=trace.action,
        corrected_action=_corrected_action(trace),
        outcomes=last_outcomes(trace),
        status=str(status or "").upper(),
    )


def _corrected_action(trace: TraceRecord) -> Any:
    texts = [event.text for event in trace.feedback if event.kind == "correction"]
    try:
        return json.loads(texts[-1]) if texts else trace.action
    except (ValueError, RecursionError):  # a person edited the text by hand
        return trace.action
