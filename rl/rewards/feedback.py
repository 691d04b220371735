"""Ratings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

from rl.base.records import FeedbackRecord, TraceRecord
from rl.rewards.base import BaseReward, RewardResult
from rl.rewards.decision import is_of_decision


class FeedbackReward(BaseReward):
    """The mean of the current ratings, 0 … 1. No check of a program is heavier: it is what they all stand for.

    A rating that came with a decision counts in the reward ``decision``, and not here once more.
    """

    name = "feedback"
    weight = 3.0
    fresh = False

    def compute(self, trace: TraceRecord) -> RewardResult:
        counted_elsewhere = isinstance(trace.details.get("decision"), Mapping)
        events = [event for event in trace.feedback if not (counted_elsewhere and is_of_decision(event))]
        values = ratings(events)
        if not values:
            known = ratings(trace.feedback)
            return self.abstains("the reward 'decision' counts what was said" if known else "nobody rated it")
        count = len(values)
        return self.gives(fmean(values), f"the mean of {count} rating{'s' * (count != 1)}", ratings=count)


def ratings(events: Iterable[FeedbackRecord]) -> list[float]:
    return [event.value for event in events if event.kind == "rating" and event.value is not None]


def mean_rating(trace: TraceRecord) -> float | None:
    """0 … 1, or None where nobody rated."""
    values = ratings(trace.feedback)
    return fmean(values) if values else None
