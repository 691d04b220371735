"""Tasks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rl.base.records import TaskEvent, TraceRecord
from rl.rewards.base import BaseReward, RewardResult


class TaskCompletionReward(BaseReward):
    """The share of the tasks that were completed. A task that failed and was completed later counts as completed, one that
    never ended as not completed."""

    name = "task_completion"
    weight = 1.5
    fresh = False

    def compute(self, trace: TraceRecord) -> RewardResult:
        last = _last_status(trace.tasks)
        if not last:
            return self.abstains("it had no task")
        count = {status: sum(ending == status for ending in last) for status in ("completed", "failed", "created")}
        reason = f"{count['completed']} of {len(last)} tasks were completed"
        details = {"completed": count["completed"], "failed": count["failed"], "open": count["created"]}
        return self.gives(count["completed"] / len(last), reason, **details)


def _last_status(events: Iterable[TaskEvent]) -> list[str]:
    """One for each task; an event without a task's id is a task of its own."""
    tasks: dict[str, list[TaskEvent]] = {}
    for number, event in enumerate(events):
        tasks.setdefault(event.task_id or f"\x00{number}", []).append(event)
    return [_ending(own_events).status for own_events in tasks.values()]


def _ending(events: list[TaskEvent]) -> TaskEvent:
    """The latest that ends the task; by time where every event has one, else by position."""
    endings = [event for event in events if event.status != "created"] or events
    times = [_moment(event.timestamp) for event in endings]
    known = [time for time in times if time is not None]
    if len(known) < len(endings):
        return endings[-1]
    return endings[max(range(len(endings)), key=lambda index: (known[index], index))]


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
