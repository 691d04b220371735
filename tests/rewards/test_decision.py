from dataclasses import replace
from typing import Any

import pytest

from rl.base.records import FeedbackRecord, TraceRecord
from rl.rewards import DecisionReward, RewardResult
from rl.rewards.decision import FORMULAS
from tests.rewards.records import record

WEIGHTS = {"delayed": {"worked": 0.5, "reworkPenalty": 0.2}, "quality": {"speed": 2.0}}


def outcome(metric: str, value: float) -> FeedbackRecord:
    return FeedbackRecord(kind="outcome", metric=metric, raw_value=value)


def compute(decision: dict[str, Any], *feedback: FeedbackRecord, weights: Any = WEIGHTS) -> RewardResult:
    return DecisionReward(weights).compute(record(details={"decision": decision}, feedback=feedback))


def raw(*arguments: Any, **options: Any) -> float:
    reward: float = compute(*arguments, **options).details["reward"]
    return reward


def test_the_reward_that_came_with_the_decision_goes_first():
    result = compute({"reward": -0.5, "rewardComponents": {"worked": 1.0}})
    assert (result.value, result.reason) == (0.375, "the reward that came with the decision")


@pytest.mark.parametrize(("stored", "value"), [(2, 1.0), (-2, 0.0), (0, 0.5), (1, 0.75), (99, 1.0), (-99, 0.0)])
def test_it_is_normalised_to_0_to_1(stored: float, value: float):
    assert compute({"reward": stored}).value == value


def test_components_are_summed_with_their_weights():
    result = compute({"rewardComponents": {"delayed": {"worked": 1.0}, "quality": {"speed": -0.25}}})
    assert result.details["reward"] == pytest.approx(0.5 * 1.0 - 2.0 * 0.25)
    assert result.details["components"]["delayed"]["worked"] == {"value": 1.0, "weight": 0.5}
    assert result.reason == "the weighted sum of 2 components"


def test_components_may_be_flat():
    assert raw({"rewardComponents": {"worked": 0.5, "speed": 1}}) == pytest.approx(2.25)


def test_the_sum_is_clamped():
    assert raw({"rewardComponents": {"speed": 40}}) == 5.0
    assert raw({"rewardComponents": {"speed": -40}}) == -5.0


@pytest.mark.parametrize(
    "decision", [{}, {"reward": None}, {"rewardComponents": {"unheardOf": 1}}, {"reward": "much"}, {"reward": 10**400}]
)
def test_nothing_known_is_no_reward(decision: dict[str, Any]):
    assert compute(decision).value is None


def test_what_is_no_decision_is_none():
    assert DecisionReward().compute(record(details={"decision": "yes"})).value is None
    assert DecisionReward().compute(record()).value is None


def test_the_last_outcome_of_its_name_is_a_component():
    assert raw({}, outcome("speed", 1), outcome("speed", 2), outcome("clicks", 7)) == 4.0


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_a_penalty_counts_downwards_whatever_its_sign(value: float):
    assert raw({}, outcome("reworkPenalty", value)) == pytest.approx(-0.2)


def test_what_came_with_the_decision_goes_before_what_is_told():
    assert raw({"rewardComponents": {"quality": {"speed": 0.5}}}, outcome("speed", 1)) == 1.0


def tell_speed(trace: TraceRecord) -> dict[str, float]:
    return {"speed": 0.25}


@pytest.mark.parametrize(
    ("decision", "agent"), [({"agentType": "planner"}, "other"), ({}, "Planner"), ({"agentType": ["x"]}, "PLANNER")]
)
def test_the_formula_of_the_agents_type_tells_components(decision: Any, agent: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(FORMULAS, "PLANNER", f"{__name__}.tell_speed")
    trace = replace(record(details={"decision": decision}, feedback=(outcome("speed", 1),)), agent=agent)
    assert DecisionReward(WEIGHTS).compute(trace).details["reward"] == 0.5
