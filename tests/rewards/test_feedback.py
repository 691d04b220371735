from __future__ import annotations

from rl.base.records import FeedbackRecord
from rl.rewards import FeedbackReward
from tests.rewards.records import rated, record


def test_it_is_the_mean_of_the_ratings():
    result = FeedbackReward().compute(rated(1.0, 0.5))
    assert (result.value, result.reason) == (0.75, "the mean of 2 ratings")


def test_other_feedback_is_no_rating():
    said = (FeedbackRecord(kind="correction", text="Better."), FeedbackRecord(kind="outcome", metric="m", raw_value=1))
    assert FeedbackReward().compute(record(feedback=said)).value is None
