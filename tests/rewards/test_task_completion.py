from __future__ import annotations

from rl.base.records import TaskEvent
from rl.rewards import TaskCompletionReward
from tests.rewards.records import record


def value(*events: tuple[str, ...]) -> float | None:
    tasks = tuple(TaskEvent(task_id=event[0], status=event[1], timestamp="".join(event[2:])) for event in events)
    return TaskCompletionReward().compute(record(tasks=tasks)).value


def test_it_is_the_share_of_the_tasks_that_were_completed():
    assert value(("a", "created"), ("b", "created"), ("c", "created"), ("a", "completed"), ("b", "failed")) == 1 / 3


def test_without_a_task_it_does_not_apply():
    assert value() is None


def test_a_task_that_failed_and_was_completed_later_counts_as_completed():
    assert value(("a", "failed"), ("a", "completed")) == 1.0


def test_the_time_decides_what_came_later_where_it_is_known():
    early, late = "2026-02-01T10:00:00+00:00", "2026-02-01T12:00:00+01:00"
    assert value(("a", "completed", late), ("a", "failed", early)) == 1.0
    assert value(("a", "failed", late), ("a", "completed", early)) == 0.0
    assert value(("a", "failed", "yesterday"), ("a", "completed", early)) == 1.0


def test_events_without_an_id_are_tasks_of_their_own():
    assert value(("", "completed"), ("", "failed")) == 0.5
