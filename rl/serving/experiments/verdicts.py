"""What one look at an experiment concludes. Pure: tallies in, a decision and a sentence out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rl.base.measurements import Interval
from rl.serving.experiments import sequential, wording

GUARD_SAMPLE: Final = 100
"""Observations an arm at which the interval of a guard is narrowest: it is there to find large harm early."""
EVEN: Final = 0.5
"""The win rate of two equal arms."""
PATIENCE: Final = 2
"""An experiment without an own limit ends after this many times the predicted sample."""


@dataclass(frozen=True, slots=True)
class Question:
    """What an experiment asks; ``names`` of all arms, control and stopped ones included, by key."""

    names: Mapping[int, str]
    control: int
    metric: str = "rating"
    minimum_effect: float = 0.1
    confidence: float = 0.95
    min_samples: int = 50
    max_samples: int | None = None
    guard_metric: str = ""
    guard_margin: float = 0.0

    @property
    def alpha(self) -> float:
        """The share of error of one challenger: all together get 1 - confidence (Bonferroni)."""
        return (1 - self.confidence) / max(1, len(self.names) - 1)

    @property
    def challengers(self) -> list[int]:
        return [arm for arm in self.names if arm != self.control]


@dataclass(frozen=True, slots=True)
class Reading:
    """A challenger beside the control, in units of the metric."""

    difference: Interval
    variance: float
    """Variance of the difference."""
    p_value: float
    samples: int
    """Observations of the smaller side."""
    progress: float
    """Information so far, as a share of what the predicted sample would have; 0 and up."""


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: str = ""
    """A value of Experiment.Verdict; empty: go on."""
    arm: int | None = None
    """The arm that should answer everybody; None: go on."""
    harmful: tuple[int, ...] = ()
    """Arms that their guard stops now."""
    beaten: tuple[int, ...] = ()
    """Arms that are worse than the control, while others are still open."""
    reason: str = ""
    is_held: bool = False
    """Whether it waits for a person, also where the experiment is automatic."""


@dataclass(slots=True)
class Evidence:
    tally: sequential.MetricTally
    guard: sequential.MetricTally | None = None
    stopped: frozenset[int] = frozenset()
    shares: Mapping[int, float] = field(default_factory=dict)
    """Shares of the traffic from now on, by arm."""


def read(question: Question, tally: sequential.MetricTally, arm: int) -> Reading | None:
    """None while there is nothing to compare."""
    return _read(question, question.metric, tally, arm, question.minimum_effect)


def read_guard(question: Question, tally: sequential.MetricTally, arm: int) -> Reading | None:
    both = sum(_variances(question, question.guard_metric, tally, arm))
    spread = sequential.spread_for(both / GUARD_SAMPLE, question.alpha)
    return _read(question, question.guard_metric, tally, arm, spread)


def decide(question: Question, evidence: Evidence) -> Decision:
    """The guard first; then better, worse, and no difference, in this order, from the smallest sample on."""
    harmful = []
    for arm in question.challengers:
        reading = read_guard(question, evidence.guard, arm) if evidence.guard else None
        if reading is None or arm in evidence.stopped or reading.samples < sequential.VALID_FROM:
            continue
        if gain_of(question.guard_metric, reading).high < -question.guard_margin:
            harmful.append(arm)
    left = [arm for arm in question.challengers if arm not in evidence.stopped and arm not in harmful]
    reasons = [_harm_text(question, evidence, arm) for arm in harmful]
    if not left:
        reasons = reasons or ["No challenger is left: all were stopped."]
        return Decision("roll_back", question.control, tuple(harmful), (), " ".join(reasons))
    readings = {arm: read(question, evidence.tally, arm) for arm in left}
    ready = {arm: reading for arm, reading in readings.items() if reading and reading.samples >= _least(question)}
    decision = _judge(question, left, ready)
    if decision.verdict:
        reasons.append(decision.reason)
    else:
        reasons += [_open_text(question, evidence, arm, readings[arm]) for arm in left if arm not in decision.beaten]
    return Decision(decision.verdict, decision.arm, tuple(harmful), decision.beaten, " ".join(reasons))


def clip_interval(metric: str, unclipped: Interval, low: float, high: float) -> Interval:
    """The part of the interval between the two, where ratings and shares end; outcomes end nowhere."""
    if metric.startswith(wording.OUTCOME):
        return unclipped
    return Interval(unclipped.value, max(low, unclipped.low), min(high, unclipped.high))


def predict_observations(question: Question, tally: sequential.MetricTally, arm: int) -> int | None:
    """Observations an arm that find the smallest difference that matters in four of five experiments, arms of one size;
    None for an outcome that has not come in yet."""
    if tally.is_unknown():
        return None
    variance = sum(_variances(question, question.metric, tally, arm)) / 2
    challengers = max(1, len(question.challengers))
    return sequential.predicted_sample(question.minimum_effect, variance, question.confidence, challengers=challengers)


def _judge(question: Question, left: Sequence[int], ready: Mapping[int, Reading]) -> Decision:
    gains = {arm: gain_of(question.metric, reading) for arm, reading in ready.items()}
    better = [arm for arm, gain in gains.items() if gain.low > 0]
    worse = [arm for arm, gain in gains.items() if gain.high < 0]
    if better:
        best = max(better, key=lambda arm: gains[arm].value)
        return Decision("promote", best, reason=_comparison_text(question, best, ready[best], "better than"))
    if len(worse) == len(left):
        reason = " ".join(_comparison_text(question, arm, ready[arm], "worse than") for arm in worse)
        return Decision("roll_back", question.control, reason=reason)
    equal = [arm for arm in ready if arm not in worse and _is_settled(question, ready[arm])]
    if len(worse) + len(equal) == len(left):
        reason = " ".join(_equal_text(question, arm, ready[arm]) for arm in equal)
        return Decision("no_difference", question.control, reason=reason)
    return Decision(beaten=tuple(worse))


def _read(question: Question, metric: str, tally: sequential.MetricTally, arm: int, spread: float) -> Reading | None:
    if metric in wording.PAIRWISE:
        mean, samples = tally.mean(arm), tally.n(arm)
        estimate = sequential.Estimate(mean.value - EVEN, mean.variance) if mean else None
    else:
        estimate = tally.difference(question.control, arm)
        samples = min(tally.n(question.control), tally.n(arm))
    if estimate is None:
        return None
    target = sequential.needed_variance(spread, question.alpha)
    most = EVEN if metric in wording.PAIRWISE else 1.0
    difference = clip_interval(metric, sequential.interval(estimate, spread, question.alpha), -most, most)
    return Reading(
        difference, estimate.variance, sequential.p_value(estimate, spread), samples, target / estimate.variance
    )


def _variances(question: Question, metric: str, tally: sequential.MetricTally, arm: int) -> tuple[float, float]:
    """Variances of one observation of the control and of one of the challenger; comparisons have one side."""
    if metric in wording.PAIRWISE:
        return 0.0, tally.variance(arm)
    return tally.variance(question.control, arm), tally.variance(arm, question.control)


def gain_of(metric: str, reading: Reading) -> Interval:
    """The difference, turned so that more is better."""
    difference = reading.difference
    return difference if wording.sign(metric) > 0 else Interval(-difference.value, -difference.high, -difference.low)


def _least(question: Question) -> int:
    return max(question.min_samples, sequential.VALID_FROM)


def _is_small(question: Question, reading: Reading) -> bool:
    return max(abs(reading.difference.low), abs(reading.difference.high)) < question.minimum_effect


def _is_settled(question: Question, reading: Reading) -> bool:
    most, is_over = question.max_samples, reading.progress >= PATIENCE
    return _is_small(question, reading) or (is_over if most is None else reading.samples >= most)


def _is_decided(question: Question, reading: Reading) -> bool:
    """As far as the interval goes; the sample may be too small."""
    difference = reading.difference
    return difference.low > 0 or difference.high < 0 or _is_settled(question, reading)


# --- words -------------------------------------------------------------------------------------------------------------


def _comparison_text(question: Question, arm: int, reading: Reading, comparison: str) -> str:
    return f"{question.names[arm]} is {comparison} {question.names[question.control]}: {_figures(question, reading)}."


def _equal_text(question: Question, arm: int, reading: Reading) -> str:
    names = f"{question.names[arm]} and {question.names[question.control]}"
    least = wording.difference_text(question.metric, question.minimum_effect, signed=False)
    if _is_small(question, reading):
        return f"{names} differ by less than {least}: {_figures(question, reading)}."
    observations = wording.observation_name(question.metric)
    side = "" if question.metric in wording.PAIRWISE else " an arm"
    sample = f"{reading.samples} {observations}{side}"
    return f"No difference between {names} was found in {sample}: {_figures(question, reading)}."


def _harm_text(question: Question, evidence: Evidence, arm: int) -> str:
    reading = read_guard(question, evidence.guard, arm) if evidence.guard else None
    if reading is None:
        return ""
    metric = question.guard_metric
    margin = wording.difference_text(metric, question.guard_margin, signed=False)
    return (
        f"{question.names[arm]} was stopped by its guard: its {wording.name_of(metric)} differs from that of "
        f"{question.names[question.control]} by {_figures(question, reading, metric)}; {margin} would be bearable."
    )


def _open_text(question: Question, evidence: Evidence, arm: int, reading: Reading | None) -> str:
    name, observations = question.names[arm], wording.observation_name(question.metric)
    if reading is None:
        both = "" if question.metric in wording.PAIRWISE else f" of both {name} and {question.names[question.control]}"
        return f"No answer yet about {name}: there are no {observations}{both}."
    more = _more(question, evidence, arm, reading)
    until = " reach the smallest sample" if _is_decided(question, reading) else " are needed"
    rest = f" About {more} more {observations}{until}." if more else ""
    return f"No answer yet about {name}: {_figures(question, reading)}.{rest}"


def _figures(question: Question, reading: Reading, metric: str = "") -> str:
    """``metric``: where it is not the one that the experiment asks about."""
    of, difference = metric or question.metric, reading.difference
    ends = wording.difference_interval(of, difference)
    return f"{wording.difference_text(of, difference.value)} ({question.confidence * 100:g} % interval {ends})"


def _more(question: Question, evidence: Evidence, arm: int, reading: Reading) -> int | None:
    """Observations of all arms until the predicted sample is there, or, beyond it, until the experiment ends; until the
    smallest sample where nothing else is missing; None where an arm gets no traffic."""
    control, challenger = _variances(question, question.metric, evidence.tally, arm)
    rates = (
        (1.0, 1.0)
        if question.metric in wording.PAIRWISE
        else tuple(evidence.shares.get(arm_id, 0.0) for arm_id in (question.control, arm))
    )
    if min(rates) <= 0:
        return None
    target = sequential.needed_variance(question.minimum_effect, question.alpha)
    goal = (1 if reading.progress < 1 else PATIENCE) / target
    wanted = (goal - 1 / reading.variance) * (control / rates[0] + challenger / rates[1])
    if _is_decided(question, reading):
        wanted = 0.0
    if question.max_samples is not None:
        wanted = min(wanted, (question.max_samples - reading.samples) / min(rates))
    wanted = max(wanted, (_least(question) - reading.samples) / min(rates), 1)
    # rounded up to two digits: more would claim to know
    digits = max(0, len(str(math.ceil(wanted))) - 2)
    return math.ceil(wanted / 10**digits) * 10**digits
