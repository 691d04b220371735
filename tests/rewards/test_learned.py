from __future__ import annotations

from rl.rewards import LearnedReward, RewardEngine
from rl.rewards.learned import NOT_JUDGED
from tests.rewards.records import rated, record


def test_without_a_model_it_does_not_apply():
    assert LearnedReward().compute(record()).value is None


def test_it_is_what_the_model_expects():
    assert LearnedReward(lambda trace: len(trace.response) / 10).compute(record("abc")).value == 0.3


def test_what_the_model_does_not_know_it_abstains_from():
    result = LearnedReward(lambda trace: None).compute(record())
    assert (result.value, result.reason) == (None, NOT_JUDGED)


def test_the_model_alone_is_no_evidence():
    engine = RewardEngine(rewards=[LearnedReward(lambda trace: 1.0)])
    assert engine.compute_combined(record()) is None
    assert engine.compute_combined(rated(0.0)) == 0.25
