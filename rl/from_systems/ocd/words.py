"""What a person did with a decision, in OCD's words: as a rating here, and as a reward there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl.base.records import TraceRecord
from rl.rewards.decision import is_of_decision

RATINGS: Mapping[str, float] = {"CONFIRMED": 1.0, "CORRECTED": 0.0, "OVERRIDDEN": 0.0, "IGNORED": 0.5}
"""As a rating, 0 to 1."""
FEEDBACK: Mapping[str, float] = {"CONFIRMED": 1.0, "CORRECTED": -0.5, "OVERRIDDEN": -0.8, "IGNORED": 0.0}
"""As OCD's component ``userFeedback``."""


def feedback_word(trace: TraceRecord) -> str:
    """The word of the last rating of the decision, else the one that came with it; empty: none."""
    ratings = (event for event in reversed(trace.feedback) if event.kind == "rating" and is_of_decision(event))
    words = (tag.upper() for event in ratings for tag in event.tags)
    return next((word for word in words if word in RATINGS), "") or _word_of_record(trace.details.get("decision"))


def _word_of_record(decision: Any) -> str:
    word = str(decision.get("userFeedback") or "").upper() if isinstance(decision, Mapping) else ""
    return word if word in RATINGS else ""
