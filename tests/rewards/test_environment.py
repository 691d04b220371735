from __future__ import annotations

from typing import Any

import pytest

from rl.base.records import ToolCall
from rl.rewards import CodeExecutionReward, EnvironmentReward, RewardEngine
from tests.rewards.records import record


def ended(reward: Any, success: bool = False, **fields: Any):
    episode = {"reward": reward, "success": success, "reason": "2 of 3 tests passed"}
    return record(details={"episode": episode}, **fields)


@pytest.mark.parametrize(
    ("reward", "success", "value"),
    [(1.0, True, 1.0), (10, True, 1.0), (0.2, True, 1.0), (0.0, False, 0.0), (-0.1, False, 0.0), (0.4, False, 0.4)],
)
def test_it_is_what_the_environment_says(reward, success, value):
    result = EnvironmentReward().compute(ended(reward, success))
    assert (result.value, result.details) == (value, {"reward": reward})


def test_it_tells_people_the_reason():
    assert EnvironmentReward().compute(ended(0.0)).reason == "not solved: 2 of 3 tests passed"


@pytest.mark.parametrize("reward", [None, float("nan"), "1"])
def test_where_the_world_broke_it_does_not_apply(reward):
    assert EnvironmentReward().compute(ended(reward)).value is None


def test_other_answers_are_none_of_its_business():
    assert EnvironmentReward().compute(record()).value is None
    assert EnvironmentReward().compute(record(details={"episode": "pilot"})).value is None


PROGRAM = "```python\nprint(int(input()) + 7)\n```"


def test_code_that_an_environment_judged_is_not_run_again():
    result = CodeExecutionReward().compute(ended(1.0, True, response=PROGRAM))
    assert (result.value, result.reason) == (None, "an environment judges what such code does")


@pytest.mark.parametrize(("success", "tried", "label"), [(False, True, False), (True, False, True)])
def test_the_verdict_decides_and_not_how_it_went_on_the_way(success, tried, label):
    calls = (ToolCall("exec_code", success=tried),)
    trace = ended(float(success), success, response=PROGRAM, tool_calls=calls, tokens_in=300, tokens_out=200)
    assert RewardEngine().get_binary_label(trace) is label
