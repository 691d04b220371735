"""Rewards as ToolBoxV2's documents write them."""

import pytest

from rl.base.errors import RewardFailed, UsageError
from rl.from_systems.toolbox import (
    BaseReward,
    CodeExecutionReward,
    ExecutionTrace,
    FormatComplianceReward,
    LearnedReward,
    RewardEngine,
    RewardResult,
    ToolCallTrace,
    ToolSuccessReward,
)
from tests.rewards.records import record

GOOD, BAD = ToolCallTrace("shell", {}, "ok", True, 1.0), ToolCallTrace("shell", {}, None, False, 1.0, "no")


class CustomReward(BaseReward):
    name = "my_custom_reward"
    weight = 1.5

    def compute(self, trace: ExecutionTrace) -> RewardResult:
        there = "specific_pattern" in trace.final_response
        return RewardResult(score=1.0 if there else 0.0, is_binary=True, details={"there": there})


class BrokenReward(BaseReward):
    name = "broken"

    def compute(self, trace: ExecutionTrace) -> RewardResult:
        raise KeyError("x")


def answered(text: str, *calls: ToolCallTrace) -> ExecutionTrace:
    return ExecutionTrace(user_query="q", final_response=text, tool_calls=list(calls))


def test_a_result_becomes_zero_or_one():
    assert [RewardResult(score, False).to_binary() for score in (0.4, 0.5)] == [0, 1]
    assert RewardResult(0.5, False).to_binary(0.6) == 0


def test_rewards_of_ones_own_stand_beside_the_built_in_ones():
    engine = RewardEngine([CodeExecutionReward(), ToolSuccessReward(), CustomReward()])
    trace = answered("with specific_pattern", GOOD, BAD)
    results = engine.compute_all(trace)
    assert list(results) == ["code_execution", "tool_success", "my_custom_reward"]
    assert (results["tool_success"].score, results["my_custom_reward"].details) == (0.5, {"there": True})
    assert results["code_execution"].applies is False
    assert engine.compute_combined(trace) == pytest.approx((2 * 0.5 + 1.5) / 3.5)
    assert CustomReward()(trace).score == 1.0


def test_without_a_list_there_are_the_six():
    assert list(RewardEngine().compute_all(answered("x"))) == [
        "code_execution",
        "syntax_validation",
        "tool_success",
        "task_completion",
        "efficiency",
        "format_compliance",
    ]


def test_a_greeting_is_not_bad():
    """ToolBoxV2 gives it 0.594, because five rewards that do not apply give 0.5."""
    hello = answered("Hello! How can I help?")
    assert RewardEngine().compute_combined(hello) == 1.0
    assert RewardEngine().get_binary_label(hello) is True
    assert RewardEngine().get_binary_label(answered("<b>Hello</b><i>!</i>")) is True
    assert RewardEngine().compute_combined(answered("<b>Hello</b><i>!</i>")) == pytest.approx(0.6)


def test_where_nothing_applies_nothing_is_said():
    engine = RewardEngine([ToolSuccessReward(), LearnedReward()])
    assert engine.compute_combined(answered("x")) == 0.5
    assert engine.get_binary_label(answered("x")) is None


def test_a_group_is_normalised_and_one_alone_is_not():
    engine = RewardEngine([ToolSuccessReward()])
    assert engine.compute_for_group([answered("a", GOOD), answered("b", BAD)]) == [1.0, -1.0]
    assert engine.compute_for_group([answered("a", GOOD), answered("b", GOOD)]) == [0.0, 0.0]
    assert engine.compute_for_group([answered("a", GOOD)]) == [1.0]


def test_a_reward_that_breaks_is_named_and_spoils_no_label():
    engine = RewardEngine([ToolSuccessReward(), BrokenReward()])
    results = engine.compute_all(answered("a", GOOD))
    assert (results["broken"].score, results["broken"].error) == (0.0, "KeyError: 'x'")
    with pytest.raises(RewardFailed, match="broken"):
        engine.compute_combined(answered("a", GOOD))
    with pytest.raises(UsageError, match="not a BaseReward"):
        RewardEngine([CustomReward])  # type: ignore[list-item]


def test_a_summary_says_it_in_lines():
    text = RewardEngine([ToolSuccessReward(), CodeExecutionReward()]).summary(answered("a", GOOD))
    assert text.splitlines() == [
        "tool_success: 1.000",
        "code_execution: does not apply (it has no python or shell block)",
        "Combined: 1.000",
        "Label: GOOD",
    ]


def test_plain_text_is_the_format_that_is_asked_for():
    assert FormatComplianceReward().compute(answered("<p>no</p>")).score == pytest.approx(0.8)
    with pytest.raises(UsageError, match="forbidden_patterns"):
        FormatComplianceReward(["x"])


def test_an_engine_scores_what_ratchet_generates():
    score = RewardEngine([CustomReward()]).score(record("specific_pattern"))
    assert (score.value, score.components) == (1.0, {"my_custom_reward": 1.0})
