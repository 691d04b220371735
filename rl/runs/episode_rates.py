"""How often the agent of a run solves its tasks, over the steps. Episodes whose environment broke count in no rate.

The database counts, by ranges of steps: what comes over does not grow with the episodes.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Avg, Case, Count, F, FloatField, Max, Min, Q, QuerySet, Value, When

from rl.models import Episode, TrainingRun

RANGES, TASK_RANGES, TASKS = 100, 10, 200
SPLITS = (Episode.Split.TRAIN, Episode.Split.EVAL)
_EPISODES, _SOLVED = Count("id"), Count("id", filter=Q(success=True))


@dataclass(frozen=True, slots=True)
class SuccessRate:
    """Over some steps that follow each other."""

    step: int
    """The first that has an episode."""
    episodes: int
    solved: int

    @property
    def value(self) -> float:
        return self.solved / self.episodes


@dataclass(frozen=True, slots=True)
class TaskRate:
    task_id: str
    split: str
    episodes: int
    solved: int
    newest: UUID
    """The trace of its newest episode."""
    over_time: tuple[SuccessRate, ...]
    """At least one."""

    @property
    def first(self) -> float:
        return self.over_time[0].value

    @property
    def last(self) -> float:
        return self.over_time[-1].value


def success_rates(run: TrainingRun) -> dict[str, list[SuccessRate]]:
    """Split to its rates, about 100 at most; empty without an episode. Two queries, one where there is none."""
    rates: defaultdict[str, list[SuccessRate]] = defaultdict(list)
    for (split,), rate in _rates_by_range(run, _valid_episodes(run), RANGES, "split"):
        rates[split].append(rate)
    return dict(rates)


def series(run: TrainingRun) -> dict[str, list[Any]] | None:
    """``step`` and, for each split, the rate at that step, None where there is none. None without an episode."""
    rates = success_rates(run)
    at = {split: {rate.step: round(rate.value, 4) for rate in rates.get(split, ())} for split in SPLITS}
    steps = sorted({step for values in at.values() for step in values})
    return {"step": steps, **{split: [at[split].get(step) for step in steps] for split in SPLITS}} if steps else None


def task_rates(run: TrainingRun, most: int = TASKS) -> list[TaskRate]:
    """The tasks that are solved least, the worst first. Four queries."""
    solved = Case(When(success=True, then=Value(1.0)), default=Value(0.0), output_field=FloatField())
    grouped = (
        _valid_episodes(run)
        .values("task_id", "split")
        .annotate(episodes=_EPISODES, solved=_SOLVED, rate=Avg(solved), newest=Max("id"))
    )
    rows = list(grouped.order_by("rate", "split", "task_id")[:most])
    traces = dict(Episode.objects.filter(pk__in=[row["newest"] for row in rows]).values_list("pk", "trace_id"))
    over_time: defaultdict[tuple[str, str], list[SuccessRate]] = defaultdict(list)
    of_tasks = _valid_episodes(run).filter(task_id__in=[row["task_id"] for row in rows])
    for (task_id, split), rate in _rates_by_range(run, of_tasks, TASK_RANGES, "task_id", "split"):
        over_time[task_id, split].append(rate)
    return [
        TaskRate(
            row["task_id"],
            row["split"],
            row["episodes"],
            row["solved"],
            traces[row["newest"]],
            tuple(over_time[row["task_id"], row["split"]]),
        )
        for row in rows
    ]


def number_of_tasks(run: TrainingRun) -> int:
    return _valid_episodes(run).values("task_id", "split").distinct().count()


def _valid_episodes(run: TrainingRun) -> QuerySet[Episode]:
    return run.episodes.filter(split__in=SPLITS, reward__isnull=False).order_by()


def _rates_by_range(
    run: TrainingRun, episodes: QuerySet[Episode], ranges: int, *groups: str
) -> Iterator[tuple[tuple[str, ...], SuccessRate]]:
    """By step, for each group (the values of the fields ``groups``) and each of about so many ranges of steps."""
    last = _valid_episodes(run).aggregate(last=Max("step"))["last"]
    if last is not None:
        width = last // ranges + 1
        rows = episodes.values(*groups, part=F("step") / Value(width)).annotate(
            episodes=_EPISODES, solved=_SOLVED, first=Min("step")
        )
        for row in rows.order_by("part"):
            group = tuple(row[name] for name in groups)
            yield group, SuccessRate(row["first"], row["episodes"], row["solved"])
