"""Pages of runs, newest first, with what each learned, made and cost. A page costs five queries, however many runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import F, Value
from django.utils import timezone

from rl.models import Agent, Evaluation, MetricPoint, TrainingRun
from rl.web.dashboard_counts import newest_evaluations

PAGE = 25
POINTS, WIDTH, HEIGHT, EDGE = 40, 96, 24, 3
"""How many points a sparkline has, and its pixels."""


@dataclass(frozen=True, slots=True)
class RunFigures:
    run: TrainingRun
    evaluation: Evaluation | None
    """The newest of what it made."""
    spark: str
    """The loss, as the points of a polyline; empty without a measurement."""

    @property
    def minutes(self) -> float | None:
        return minutes(self.run)


@dataclass(frozen=True, slots=True)
class RunPage:
    runs: list[RunFigures]
    older: int | None
    """What ``before`` must be for the next page; None on the last."""


def newest(agent: Agent | None = None, state: str = "", before: int | None = None) -> RunPage:
    """``state``: one of TrainingRun.State, or empty. ``before``: the ``older`` of the page before."""
    rows = TrainingRun.objects.select_related("agent", "version", "training_set").order_by("-pk")
    if agent:
        rows = rows.filter(agent=agent)
    if state:
        rows = rows.filter(state=state)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    listed = list(rows[: PAGE + 1])
    return RunPage(describe(listed[:PAGE]), listed[PAGE - 1].pk if len(listed) > PAGE else None)


def describe(runs: Sequence[TrainingRun]) -> list[RunFigures]:
    """Two queries."""
    evaluations = newest_evaluations([run.version for run in runs if run.version])
    sparks = _sparks(runs)
    return [RunFigures(run, evaluations.get(run.version_id or 0), sparks.get(run.pk, "")) for run in runs]


def minutes(run: TrainingRun) -> float | None:
    """How long it has worked, or did; None before it began."""
    if run.started_at is None:
        return None
    return ((run.finished_at or timezone.now()) - run.started_at).total_seconds() / 60


def _sparks(runs: Iterable[TrainingRun]) -> dict[int, str]:
    """The database leaves out most points of a long run."""
    width = F("run__total_steps") / Value(POINTS) + Value(1)
    points = MetricPoint.objects.filter(run__in=[run.pk for run in runs]).alias(rest=F("step") % width)
    losses: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for run_id, step, values in points.filter(rest=0).order_by("run", "step").values_list("run_id", "step", "values"):
        if (loss := next((values[name] for name in sorted(values) if "loss" in name), None)) is not None:
            losses[run_id].append((step, loss))
    return {run_id: _draw(of_run) for run_id, of_run in losses.items()}


def _draw(points: list[tuple[float, float]]) -> str:
    heights = [loss for _, loss in points]
    return sparkline(points, points[-1][0], min(heights), max(heights))


def sparkline(values: Sequence[tuple[float, float]], last_x: float, low: float, high: float) -> str:
    """A line as small as a word, as the points of an SVG polyline. ``values``: (x, y) with x from 0 to ``last_x`` and y from
    ``low`` to ``high``. A single one is a short dash; empty without any."""
    width, height, span = WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE, (high - low) or 1.0
    points = [(EDGE + width * x / (last_x or 1), EDGE + height * (1 - (y - low) / span)) for x, y in values]
    if len(points) == 1:
        [(x, y)] = points
        points = [(x - EDGE, y), (x + EDGE, y)]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
