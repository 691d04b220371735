"""Ratings."""

from __future__ import annotations

from statistics import fmean

from rl.base.records import TraceRecord
from rl.rewards.base import BaseReward, RewardResult


class FeedbackReward(BaseReward):
    """The mean of the current ratings, 0 … 1. No check of a program is heavier: it is what they all stand for."""

    name = "feedback"
    weight = 3.0
    fresh = False

    def compute(self, trace: TraceRecord) -> RewardResult:
        rating = mean_rating(trace)
        if rating is None:
            return self.abstains("nobody rated it")
        count = len(ratings(trace))
        return self.gives(rating, f"the mean of {count} rating{'s' * (count != 1)}", ratings=count)


def ratings(trace: TraceRecord) -> list[float]:
    return [event.value for event in trace.feedback if event.kind == "rating" and event.value is not None]


def mean_rating(trace: TraceRecord) -> float | None:
    """0 … 1, or None where nobody rated."""
    values = ratings(trace)
    return fmean(values) if values else None
