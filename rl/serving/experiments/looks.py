"""One look at an experiment: its arms, its intervals, and what follows from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.utils import timezone

from rl.base.measurements import Interval
from rl.config.groups import read_group_keys
from rl.models import Arm, Experiment
from rl.serving.experiments import metrics, verdicts
from rl.serving.experiments.groups import GroupLook, GroupTallies, hold_back
from rl.serving.experiments.sample_ratio import SampleRatio, check_split, shares
from rl.serving.experiments.sequential import SHARE, MetricTally, interval

POINTS = 60
"""Fewest points of a challenger's history, given as many observations; at most there are twice as many."""


@dataclass(frozen=True, slots=True)
class Point:
    """The difference to the control at one moment of the past."""

    observations: int
    """Rated users, or comparisons, of all arms until then."""
    difference: Interval


@dataclass(frozen=True, slots=True)
class ArmLook:
    arm: Arm
    share: float
    """Share of the traffic now, 0 to 1."""
    samples: int
    mean: Interval | None
    """None while nothing was observed."""
    reading: verdicts.Reading | None
    """Beside the control; None for the control itself, and while there is nothing to compare."""
    guard: verdicts.Reading | None
    predicted: int | None
    """Observations an arm, of one size, that find the smallest difference that matters."""
    history: Sequence[Point] = ()


@dataclass(frozen=True, slots=True)
class ExperimentLook:
    experiment: Experiment
    arms: tuple[ArmLook, ...]
    decision: verdicts.Decision
    users: Mapping[int, int] = field(default_factory=dict)
    """Users or conversations, by the arm that they were given last."""
    sample_ratio: SampleRatio | None = None
    """None while there is nothing to compare."""
    groups: Sequence[GroupLook] = ()

    @property
    def is_mismatched(self) -> bool:
        """Whether the users do not fit the split: nothing else here can be trusted then."""
        return self.sample_ratio is not None and self.sample_ratio.is_mismatched

    @property
    def control(self) -> ArmLook | None:
        return next((arm_look for arm_look in self.arms if arm_look.arm.is_control), None)

    @property
    def challengers(self) -> list[ArmLook]:
        return [arm_look for arm_look in self.arms if not arm_look.arm.is_control]

    @property
    def progress(self) -> float:
        """Progress of the challenger that is the furthest behind, 0 to 1."""
        open_arms = [arm_look for arm_look in self.challengers if not arm_look.arm.is_stopped]
        return min((min(1.0, arm.reading.progress) if arm.reading else 0.0 for arm in open_arms), default=1.0)


@dataclass(slots=True)
class _Past:
    """Points at even distances of a stream of unknown length: when there are too many, every second one goes."""

    question: verdicts.Question
    every: int = 1
    observations: int = 0
    points: dict[int, list[Point]] = field(default_factory=dict)

    def note(self, tally: MetricTally) -> None:
        self.observations += 1
        if self.observations % self.every:
            return
        for arm in self.question.challengers:
            if reading := verdicts.read(self.question, tally, arm):
                self.points.setdefault(arm, []).append(Point(self.observations, reading.difference))
        if max(map(len, self.points.values()), default=0) >= 2 * POINTS:
            self.every *= 2
            self.points = {
                arm: [point for point in points if point.observations % self.every == 0]
                for arm, points in self.points.items()
            }

    def until(self, tally: MetricTally) -> dict[int, list[Point]]:
        """The points by arm, with the present as the last one."""
        for arm in self.question.challengers:
            if reading := verdicts.read(self.question, tally, arm):
                points = self.points.setdefault(arm, [])
                if points and points[-1].observations == self.observations:
                    points.pop()
                points.append(Point(self.observations, reading.difference))
        return self.points


def look(experiment: Experiment, *, with_history: bool = False) -> ExperimentLook:
    """Three to seven queries, and one pass over what was observed. The history of an error rate is its present: requests are
    counted only."""
    arms = list(experiment.arms.select_related("version"))
    control = next((arm.pk for arm in arms if arm.is_control), None)
    fields = ("metric", "minimum_effect", "confidence", "min_samples", "max_samples", "guard_metric", "guard_margin")
    values = {name: getattr(experiment, name) for name in fields}
    question = verdicts.Question(names={arm.pk: arm.name for arm in arms}, control=control or 0, **values)
    start = experiment.started_at
    end = experiment.stopped_at or timezone.now()
    hours = (end - start).total_seconds() / 3600 if start else 0.0
    now_shares = shares({arm.pk: arm.weight for arm in arms if not arm.is_stopped}, control, experiment.ramp, hours)
    tally = metrics.new_tally(question.metric, question.minimum_effect)
    past = _Past(question) if with_history else None
    by_group = GroupTallies(question, len(read_group_keys(experiment.agent.group_by)))
    _fill(tally, experiment, arms, question.metric, past, by_group)
    guard = tally if question.guard_metric else None
    if question.guard_metric not in ("", question.metric):
        guard = metrics.new_tally(question.guard_metric, question.guard_margin)
        _fill(guard, experiment, arms, question.guard_metric)
    evidence = verdicts.Evidence(tally, guard, frozenset(arm.pk for arm in arms if arm.is_stopped), now_shares)
    history = past.until(tally) if past else {}
    rows = tuple(
        ArmLook(
            arm=arm,
            share=evidence.shares.get(arm.pk, 0.0),
            samples=evidence.tally.n(arm.pk),
            mean=_mean(question, evidence.tally, arm.pk),
            reading=None if arm.is_control else verdicts.read(question, evidence.tally, arm.pk),
            guard=verdicts.read_guard(question, evidence.guard, arm.pk)
            if evidence.guard and not arm.is_control
            else None,
            predicted=None if arm.is_control else verdicts.predict_observations(question, evidence.tally, arm.pk),
            history=history.get(arm.pk, ()),
        )
        for arm in arms
    )
    users = metrics.users(experiment)
    ratio = check_split(experiment, arms, users)
    groups = by_group.read()
    decision = hold_back(_decision(experiment, question, evidence, ratio), question, groups)
    return ExperimentLook(experiment, rows, decision, users, ratio, groups)


def _fill(
    tally: MetricTally,
    experiment: Experiment,
    arms: list[Arm],
    metric: str,
    past: _Past | None = None,
    by_group: GroupTallies | None = None,
) -> None:
    if metric == "error_rate":
        metrics.count_errors(tally, arms)
        if past:
            past.observations = sum(tally.n(arm.pk) for arm in arms)
        return
    for observation in metrics.observations(experiment, metric):
        if tally.add(observation.arm, observation.unit, observation.value, observation.step) and past:
            past.note(tally)
        if by_group:
            by_group.note(observation)


def _mean(question: verdicts.Question, tally: MetricTally, arm: int) -> Interval | None:
    mean = tally.mean(arm)
    if mean is None:
        return None
    return verdicts.clip_interval(question.metric, interval(mean, question.minimum_effect, question.alpha), *SHARE)


def _decision(
    experiment: Experiment, question: verdicts.Question, evidence: verdicts.Evidence, ratio: SampleRatio | None
) -> verdicts.Decision:
    """What to do with a running experiment; what was decided of a stopped one stands in its row. Where the users do not fit
    the split there is no verdict, and only a guard still stops its arm."""
    if experiment.state == Experiment.State.RUNNING and question.control:
        decision = verdicts.decide(question, evidence)
        if ratio is None or not ratio.is_mismatched:
            return decision
        return verdicts.Decision(harmful=decision.harmful, reason=f"{ratio.text} Without that: {decision.reason}")
    reason = "It has not started." if experiment.state == Experiment.State.DRAFT else experiment.reason
    return verdicts.Decision(reason=reason)
