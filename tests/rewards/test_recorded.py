from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.base.records import FeedbackRecord, TaskEvent, ToolCall
from rl.rewards import (
    CodeExecutionReward,
    EfficiencyReward,
    EnvironmentReward,
    FeedbackReward,
    LearnedReward,
    RewardEngine,
    TaskCompletionReward,
    ToolSuccessReward,
)
from rl.rewards.recorded import NOT_JUDGED
from tests.rewards.records import rated, record


def value(*events: tuple[str, ...]) -> float | None:
    tasks = tuple(TaskEvent(task_id=event[0], status=event[1], timestamp="".join(event[2:])) for event in events)
    return TaskCompletionReward().compute(record(tasks=tasks)).value


def test_it_is_the_share_of_the_tasks_that_were_completed():
    assert value(("a", "created"), ("b", "created"), ("c", "created"), ("a", "completed"), ("b", "failed")) == 1 / 3


@pytest.mark.parametrize(
    "reward",
    [TaskCompletionReward, ToolSuccessReward, EfficiencyReward, EnvironmentReward, FeedbackReward, LearnedReward],
)
def test_where_nothing_is_known_it_does_not_apply(reward: Any):
    assert reward().compute(record()).value is None


def test_a_task_that_failed_and_was_completed_later_counts_as_completed():
    assert value(("a", "failed"), ("a", "completed")) == 1.0


def test_the_time_decides_what_came_later_where_it_is_known():
    early, late = "2026-02-01T10:00:00+00:00", "2026-02-01T12:00:00+01:00"
    assert value(("a", "completed", late), ("a", "failed", early)) == 1.0
    assert value(("a", "failed", late), ("a", "completed", early)) == 0.0
    assert value(("a", "failed", "yesterday"), ("a", "completed", early)) == 1.0


def test_events_without_an_id_are_tasks_of_their_own():
    assert value(("", "completed"), ("", "failed")) == 0.5


def test_it_is_the_share_of_the_calls_that_succeeded():
    calls = (ToolCall("search"), ToolCall("mail", success=False), ToolCall("mail", success=False), ToolCall("pay"))
    result = ToolSuccessReward().compute(record(tool_calls=calls))
    assert (result.value, result.reason) == (0.5, "2 of 4 tool calls succeeded")
    assert result.details == {"calls": 4, "failed": ["mail"]}


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"tokens_in": 0, "tokens_out": 0}, 1.0),
        ({"tokens_in": 3000, "tokens_out": 1000}, 0.5),
        ({"tokens_out": 8000}, 0.25),
        ({"duration_ms": 60_000}, 0.5),
        ({"tool_calls": (ToolCall("search"),) * 8}, 0.5),
        ({"duration_ms": 0, "tokens_out": 4000}, 0.75),
    ],
)
def test_each_part_halves_with_its_measure(fields, value):
    assert EfficiencyReward().compute(record(**fields)).value == pytest.approx(value)


def test_a_quick_answer_is_no_good_one_for_that():
    assert RewardEngine().compute_combined(record(duration_ms=1)) is None
    assert RewardEngine().compute_combined(rated(0.0, duration_ms=1)) == pytest.approx(0.5 / 3.5, abs=1e-4)


@given(st.integers(0, 2**31), st.integers(0, 2**31))
def test_using_more_never_earns_more(one, other):
    less, more = sorted([one, other])
    values = [EfficiencyReward().compute(record(tokens_out=n, duration_ms=n)).value or 0.0 for n in (less, more)]
    assert 1 >= values[0] >= values[1] >= 0


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


def test_it_is_the_mean_of_the_ratings():
    result = FeedbackReward().compute(rated(1.0, 0.5))
    assert (result.value, result.reason) == (0.75, "the mean of 2 ratings")


def test_other_feedback_is_no_rating():
    said = (FeedbackRecord(kind="correction", text="Better."), FeedbackRecord(kind="outcome", metric="m", raw_value=1))
    assert FeedbackReward().compute(record(feedback=said)).value is None


def test_it_is_what_the_model_expects():
    assert LearnedReward(lambda trace: len(trace.response) / 10).compute(record("abc")).value == 0.3


def test_what_the_model_does_not_know_it_abstains_from():
    result = LearnedReward(lambda trace: None).compute(record())
    assert (result.value, result.reason) == (None, NOT_JUDGED)


def test_the_model_alone_is_no_evidence():
    engine = RewardEngine(rewards=[LearnedReward(lambda trace: 1.0)])
    assert engine.compute_combined(record()) is None
    assert engine.compute_combined(rated(0.0)) == 0.25
