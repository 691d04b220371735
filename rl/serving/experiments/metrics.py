"""What was observed on the arms of an experiment, from the database: one query a metric, read as a stream."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from datetime import timedelta
from statistics import median
from typing import Any, NamedTuple

from django.db import models
from django.db.models.functions import Cast, Coalesce

from rl.collect.groups import Group, group_columns, values_in
from rl.config.groups import read_group_keys
from rl.models import Arm, Experiment, Feedback, Trace
from rl.models.queues import NOT_BLIND
from rl.models.traces import GATEWAY
from rl.serving.experiments.sequential import SHARE, MetricTally
from rl.serving.experiments.wording import OUTCOME

CHUNK = 5000
NEWEST = 2000
"""Answers of an agent among which it is looked what one takes."""
_BOTH_OURS = {"trace__source": GATEWAY, "other_trace__source": GATEWAY}
"""Answers from elsewhere have no version of ours, which would make them the base's."""
_MIDDLE = 0.5
"""Middle of the scale of ratings: a rating there is neither up nor down."""


class Observation(NamedTuple):
    arm: int
    unit: Hashable
    value: float
    step: int
    """Step of the ramp at the time of the answer."""
    groups: Sequence[Group] = ()


def new_tally(metric: str, margin: float) -> MetricTally:
    """``margin``: a difference that matters, in units of the metric."""
    return MetricTally(None if metric.startswith(OUTCOME) else SHARE, margin)


def observations(experiment: Experiment, metric: str) -> Iterator[Observation]:
    """Observations in the order in which they came in, without what was retracted or superseded, or came after the
    experiment ended. The error rate has none: requests are counted, see ``count_errors``."""
    if metric == "error_rate" or experiment.started_at is None:
        return iter(())
    if metric == "win_rate":
        return _comparisons(experiment)
    if metric == "duel":
        return _duels(experiment)
    return _ratings(experiment, metric)


def count_errors(tally: MetricTally, arms: list[Arm]) -> None:
    for arm in arms:
        tally.count(arm.pk, arm.requests, min(arm.failures, arm.requests))


def users(experiment: Experiment) -> dict[int, int]:
    """Arm to how many users or conversations were given it last."""
    return dict(experiment.assignments.order_by().values_list("arm").annotate(models.Count("id")))


class Effort(NamedTuple):
    """An answer takes so much, in the middle of some; None: nobody counted."""

    seconds: float | None
    tokens_in: float | None
    tokens_out: float | None


def efforts(experiment: Experiment) -> dict[int, Effort]:
    """Arm to what its answers take, among the newest NEWEST of the agent."""
    figures = ("arm", "duration_ms", "tokens_in", "tokens_out")
    rows = experiment.agent.traces.order_by("-created_at", "id").values_list(*figures)[:NEWEST]
    of_arms: dict[int, list[Sequence[int | None]]] = defaultdict(list)
    for arm, *numbers in rows:
        of_arms[arm].append(numbers)
    middles = {arm: map(_middle, zip(*numbers, strict=True)) for arm, numbers in of_arms.items() if arm}
    return {arm: Effort(ms and ms / 1000, *tokens) for arm, (ms, *tokens) in middles.items()}


def _middle(numbers: Iterable[int | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return median(known) if known else None


def users_by_step(experiment: Experiment, arms: Collection[int]) -> dict[int, dict[int, int]]:
    """Step of the ramp to arm to how many users were first answered there; those who never were count by when they came
    and the arm that they were given last."""
    answers = Trace.objects.filter(arm__in=arms, unit=models.OuterRef("unit")).order_by("occurred_at", "id")
    rows = experiment.assignments.order_by().annotate(
        first_arm=Coalesce(
            models.Subquery(answers.values("arm")[:1]), models.F("arm"), output_field=models.BigIntegerField()
        ),
        first_at=Coalesce(models.Subquery(answers.values("occurred_at")[:1]), models.F("created_at")),
    )
    counts = (
        rows.annotate(step=_step(experiment, "first_at")).values_list("step", "first_arm").annotate(models.Count("id"))
    )
    by_step: dict[int, dict[int, int]] = defaultdict(dict)
    for step, arm, count in counts:
        by_step[step][arm] = count
    return by_step


def _ratings(experiment: Experiment, metric: str) -> Iterator[Observation]:
    events, column = _events(experiment, trace__arm__experiment=experiment), "value"
    if metric.startswith(OUTCOME):
        events = events.filter(kind=Feedback.Kind.OUTCOME, metric=metric.removeprefix(OUTCOME))
        column = "raw_value"
    else:
        events = events.filter(kind=Feedback.Kind.RATING)
    thumbs = metric == "thumbs_up"
    if thumbs:
        events = events.exclude(value=_MIDDLE)
    # Who is not named is somebody else each time.
    unit = models.Case(
        models.When(trace__unit="", then=Cast("trace_id", models.CharField())), default=models.F("trace__unit")
    )
    step_then = _step(experiment, "trace__occurred_at")
    rows = _read(experiment, events.annotate(unit=unit, step=step_then), "trace__arm", "unit", column, "step")
    for (arm, name, value, step), groups in rows:
        yield Observation(arm, name, float(value > _MIDDLE) if thumbs else value, step, groups)


def _comparisons(experiment: Experiment) -> Iterator[Observation]:
    """Picks between the control and a challenger; one rater and pair is one unit. 1: the challenger won, 0.5: a tie, or both
    are bad."""
    arms = {arm.pk: arm.is_control for arm in experiment.arms.all()}
    both = {"trace__arm__experiment": experiment, "other_trace__arm__experiment": experiment}
    rows = _events(experiment, kind=Feedback.Kind.COMPARISON, **both)
    names = ("trace__arm", "other_trace__arm", "trace_id", "other_trace_id", "rater", "choice")
    for (left, right, trace, other, rater, choice), groups in _read(experiment, rows, *names):
        if arms[left] == arms[right]:
            continue
        challenger, unit = right if arms[left] else left, (rater, frozenset((trace, other)))
        yield Observation(challenger, unit, _value(choice, arms[left]), 0, groups)


def _duels(experiment: Experiment) -> Iterator[Observation]:
    """Blind picks between any answers of the control's version and of a challenger's, whoever asked; values as for
    comparisons. An arm with a number of answers of its own has none: each of a duel's answers is the only one."""
    arms = {arm.version_id: arm for arm in experiment.arms.filter(best_of=None)}
    then = {"trace__occurred_at__gte": experiment.started_at, "agent": experiment.agent_id, **_BOTH_OURS}
    rows = _events(experiment, kind=Feedback.Kind.COMPARISON, **then)
    versions = ("trace__model_version", "other_trace__model_version")
    names = (*versions, "trace_id", "other_trace_id", "rater", "choice", "tags")
    for (left, right, trace, other, rater, choice, tags), groups in _read(experiment, rows, *names):
        ours, theirs = arms.get(left), arms.get(right)
        if ours is None or theirs is None or ours.is_control == theirs.is_control or NOT_BLIND in tags:
            continue
        challenger, unit = theirs if ours.is_control else ours, (rater, frozenset((trace, other)))
        yield Observation(challenger.pk, unit, _value(choice, ours.is_control), 0, groups)


def _read(experiment: Experiment, rows: models.QuerySet[Feedback], *names: str) -> Iterator[tuple[Any, list[Group]]]:
    """These columns of each row, and the groups that its answer belongs to."""
    keys = read_group_keys(experiment.agent.group_by)
    columns = group_columns(keys, "trace__")
    for values in rows.annotate(**columns).values_list(*names, *columns).iterator(chunk_size=CHUNK):
        yield values[: len(names)], values_in(keys, values[len(names) :])


def _value(choice: str, control_is_left: bool) -> float:
    """What a pick is to the challenger; half where nobody won."""
    if choice not in (Feedback.Choice.LEFT, Feedback.Choice.RIGHT):
        return 0.5
    return float((choice == Feedback.Choice.RIGHT) == control_is_left)


def _events(experiment: Experiment, **on: Any) -> models.QuerySet[Feedback]:
    """Current ones that came until it ended. Only answers that it gave itself carry its arms."""
    until = models.Q(created_at__lte=experiment.stopped_at) if experiment.stopped_at else models.Q()
    return Feedback.objects.filter(until, is_current=True, **on).order_by("created_at", "id")


def _step(experiment: Experiment, moment: str) -> Any:
    """The step of the ramp at the time in the column ``moment``, from 0."""
    start = experiment.started_at
    if start is None or len(experiment.ramp) < 2:
        return models.Value(0, output_field=models.IntegerField())
    ends = [start + timedelta(hours=step["hours"]) for step in experiment.ramp[1:]]
    cases = [
        models.When(models.Q((f"{moment}__lt", end)), then=models.Value(number)) for number, end in enumerate(ends)
    ]
    return models.Case(*cases, default=models.Value(len(ends)), output_field=models.IntegerField())
