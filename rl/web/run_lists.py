"""Runs as people look at them: pages of them, newest first, with what each learned, made and cost (five queries, however
many runs); its first rows; and its way in seven steps, from its data to what serves its version."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db.models import F, Value
from django.utils import timezone
from django.utils.translation import gettext_noop as _

from rl.config.training_job import LEARNED_ROWS
from rl.models import Agent, Evaluation, Feedback, MetricPoint, TrainingRun
from rl.runs.stage_log import Stages
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
        """How long it has worked, or did; None before it began."""
        if self.run.started_at is None:
            return None
        return ((self.run.finished_at or timezone.now()) - self.run.started_at).total_seconds() / 60


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


def _sparks(runs: Iterable[TrainingRun]) -> dict[int, str]:
    """The database leaves out most points of a long run."""
    width = F("run__total_steps") / Value(POINTS) + Value(1)
    points = MetricPoint.objects.filter(run__in=[run.pk for run in runs]).alias(rest=F("step") % width)
    losses: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for run_id, step, values in points.filter(rest=0).order_by("run", "step").values_list("run_id", "step", "values"):
        if (loss := next((values[name] for name in sorted(values) if "loss" in name), None)) is not None:
            losses[run_id].append((step, loss))
    heights = {run_id: [loss for _, loss in of_run] for run_id, of_run in losses.items()}
    return {
        run_id: sparkline(of_run, of_run[-1][0], min(heights[run_id]), max(heights[run_id]))
        for run_id, of_run in losses.items()
    }


def sparkline(values: Sequence[tuple[float, float]], last_x: float, low: float, high: float) -> str:
    """A line as small as a word, as the points of an SVG polyline. ``values``: (x, y) with x from 0 to ``last_x`` and y from
    ``low`` to ``high``. A single one is a short dash; empty without any."""
    width, height, span = WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE, (high - low) or 1.0
    points = [(EDGE + width * x / (last_x or 1), EDGE + height * (1 - (y - low) / span)) for x, y in values]
    if len(points) == 1:
        [(x, y)] = points
        points = [(x - EDGE, y), (x + EDGE, y)]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


MOST_BYTES = 8 << 20
"""A file that is larger was not written by a run."""


def read(run: TrainingRun) -> dict[str, Any]:
    """``rows`` and ``left_out``, both empty where the run has not got so far, or keeps none."""
    path = run.directory / LEARNED_ROWS
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_BYTES:
        return {"rows": [], "left_out": []}
    kept = json.loads(path.read_text(encoding="utf-8"))
    return {"rows": with_ratings(kept["rows"]), "left_out": kept["left_out"]}


def with_ratings(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, each with the ``ratings`` that it was made of. One query."""
    ratings = Feedback.objects.in_bulk({pk for row in rows for pk in row.get("feedback", ())})
    for row in rows:
        row["ratings"] = [ratings[pk] for pk in row.get("feedback", ()) if pk in ratings]
    return rows


STEPS = (_("data"), _("base scored"), _("training"), _("answers"), _("judged"), _("exported"), _("served"))
_BEGINNINGS = {
    "scoring under the base model": 1,
    **dict.fromkeys(("training", "imitating"), 2),
    **dict.fromkeys(("evaluating", "scoring", "answering as", "solving tasks as", "fresh answers"), 3),
    **dict.fromkeys(("what the judge sees", "judging the answers", "asking judge", "rewarding the answers"), 4),
    **dict.fromkeys(("exporting GGUF", "judging the exported file"), 5),
    **dict.fromkeys(("starting llama.cpp", "uploading to Ollama", "registering with Ollama"), 6),
}
"""What a stage's name begins with, to the number of its step; the first that fits counts. Other stages belong to the step
that they come in."""


class StepState(StrEnum):
    DONE = _("done")
    NOW = _("now")
    WAITING = _("waiting")
    STOPPED = _("stopped")
    SKIPPED = _("skipped")


@dataclass(frozen=True, slots=True)
class RunStep:
    name: str
    progress: StepState


def stage_line(run: TrainingRun, stages: Stages) -> list[RunStep]:
    """Two queries at most."""
    if run.state == run.State.SUCCEEDED:  # what it was not to do, or the gate did not allow, was left out
        version = run.version
        exported = version is not None and version.artifacts.exists()
        served = version is not None and version.deployments.exists()
        left_out = {name for name, is_done in (("exported", exported), ("served", served)) if not is_done}
        return [RunStep(name, StepState.SKIPPED if name in left_out else StepState.DONE) for name in STEPS]
    begun = [
        [step for start, step in _BEGINNINGS.items() if name.startswith(start)] for name in (*stages.names, run.stage)
    ]
    reached = max([3 if run.version_id else 2 if run.step else 0, *(steps[0] for steps in begun if steps)])
    return [RunStep(name, _progress(run, number, reached)) for number, name in enumerate(STEPS)]


def _progress(run: TrainingRun, number: int, reached: int) -> StepState:
    if number < reached:
        return StepState.DONE
    if number > reached or run.state == run.State.QUEUED:
        return StepState.WAITING
    return StepState.NOW if run.is_active else StepState.STOPPED
