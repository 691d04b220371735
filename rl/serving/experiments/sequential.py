"""Confidence sequences: intervals that may be looked at as often as one likes.

An ordinary 95 % interval is right 95 % of the time if it is looked at once. Whoever looks every day and stops at the first
interval that excludes zero is wrong far more often. The intervals here hold at all times together: the chance that the
truth is ever outside is at most alpha, so one may stop at any look, for any reason.

The construction is the normal mixture (Robbins 1970, Ann. Math. Stat. 41:1397; Johari, Koomen, Pekelis and Walsh 2017,
"Peeking at A/B Tests"). Let D be an estimate of the truth d with variance V, which shrinks as data come in. If
observations are normal with known variances, S = D / V is a Brownian motion with drift d at the time 1 / V, whatever
order the arms' users come in and whatever share each arm gets (Jennison and Turnbull 1999, section 3.1). Mixing its
likelihood ratio over d ~ N(0, spread^2) gives the martingale

    M = sqrt(V / (V + spread^2)) * exp(spread^2 D^2 / (2 V (V + spread^2))),

which under d = 0 exceeds 1 / alpha at any time with a probability of at most alpha (Ville 1939). Turning M < 1 / alpha
around gives ``half_width``, and 1 / M is a p-value that is valid whenever one stops.

That is exact for the model above. Ratings are neither normal nor of known variance; with the measured variance the
sequence is asymptotic (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2024, Ann. Statist. 52:2613): the level is reached
in the limit of a late first look, not from the first user on. ``VALID_FROM`` says from when on it is used here, and
benchmarks/experiments.py measures what it keeps. The intervals are not intersected with earlier ones: an intersection is
narrower, but it becomes empty when the truth moves."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from rl.base.measurements import Interval

VALID_FROM: Final = 20
"""Observations an arm before which nothing is concluded, however few a person asks for."""


@dataclass(frozen=True, slots=True)
class Estimate:
    value: float
    variance: float
    """Variance of the value, above 0."""


def half_width(variance: float, spread: float, alpha: float) -> float:
    """Half the width of the interval around an estimate with this variance. ``spread``: of the mixture, in units of the
    estimate. The interval is valid for any spread, and narrowest about where the estimate equals it."""
    ratio = (variance + spread**2) / variance
    return math.sqrt(variance * (variance + spread**2) / spread**2 * (math.log(ratio) - 2 * math.log(alpha)))


def interval(estimate: Estimate, spread: float, alpha: float) -> Interval:
    half = half_width(estimate.variance, spread, alpha)
    return Interval(estimate.value, estimate.value - half, estimate.value + half)


def p_value(estimate: Estimate, spread: float) -> float:
    """Against the truth 0; at most alpha exactly when the interval at that alpha excludes 0."""
    total = estimate.variance + spread**2
    log_ratio = math.log(estimate.variance / total) / 2
    log_ratio += spread**2 * estimate.value**2 / (2 * estimate.variance * total)
    return min(1.0, math.exp(-log_ratio))


def spread_for(variance: float, alpha: float) -> float:
    """The spread that makes the interval of an estimate with this variance as narrow as it can be."""
    ratio = 8.0  # spread^2 / variance; half_width is least where ratio = ln(1 + ratio) - 2 ln(alpha)
    for _ in range(20):
        ratio = math.log1p(ratio) - 2 * math.log(alpha)
    return math.sqrt(ratio * variance)


def needed_variance(minimum_effect: float, alpha: float, power: float = 0.8) -> float:
    """The variance at which an effect of that size is found with that power, by a mixture of the spread
    ``minimum_effect``."""
    return minimum_effect**2 / _needed_information(alpha, power)


def predicted_sample(
    minimum_effect: float, variance: float, confidence: float, power: float = 0.8, *, challengers: int = 1
) -> int:
    """Observations an arm, arms of one size, after which an effect of ``minimum_effect`` is found with that power.
    ``variance``: of one observation. Looking all the way finds it earlier in most experiments."""
    alpha = (1 - confidence) / challengers
    return math.ceil(2 * variance / needed_variance(minimum_effect, alpha, power))


@lru_cache
def _needed_information(alpha: float, power: float) -> float:
    """1 / variance, for an effect and a spread of 1."""
    z = NormalDist().inv_cdf(power)
    low, high = 1.0, 2.0
    while half_width(1 / high, 1.0, alpha) + z / math.sqrt(high) > 1:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        short = half_width(1 / middle, 1.0, alpha) + z / math.sqrt(middle) > 1
        low, high = (middle, high) if short else (low, middle)
    return high


SHARE: Final = (0.0, 1.0)
"""The range of ratings, rates and shares."""


@dataclass(slots=True)
class Sample:
    """Mean and variance in one pass (Welford 1962); an observation may be replaced."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of squared deviations from the mean."""

    def add(self, value: float) -> None:
        self.n += 1
        before = self.mean
        self.mean += (value - before) / self.n
        self.squares += (value - before) * (value - self.mean)

    def replace(self, old: float, new: float) -> None:
        before = self.mean
        self.mean += (new - old) / self.n
        self.squares += (new - old) * (new - self.mean + old - before)

    def variance(self, low: float, high: float) -> float:
        """Variance of one observation, with one more added at each end of the range, as Agresti and Caffo (2000, Am.
        Stat. 54:280) do for proportions: ten thumbs up of ten do not prove that all will be."""
        n = self.n + 2
        mean = (self.n * self.mean + low + high) / n
        squares = self.squares + self.n * (self.mean - mean) ** 2 + (low - mean) ** 2 + (high - mean) ** 2
        return squares / n


@dataclass(slots=True)
class _Unit:
    step: int
    """Step of the ramp at which the unit was first seen on the arm; it stays there."""
    value: float
    count: int = 1


@dataclass(slots=True)
class MetricTally:
    """Statistics of one metric, in which a user (or conversation) is one observation of an arm, however much he rates:
    ratings of one user resemble each other. ``limits``: the range of its values; None for outcomes, whose range is what was
    seen so far, and at least ``margin`` to each side of its middle."""

    limits: tuple[float, float] | None = SHARE
    margin: float = 0.0
    samples: dict[int, Sample] = field(default_factory=dict)
    """The values' mean and variance, by arm."""
    _by_step: dict[int, dict[int, Sample]] = field(default_factory=dict)
    _units: dict[tuple[int, Hashable], _Unit] = field(default_factory=dict)
    _seen: tuple[float, float] | None = None

    def add(self, arm: int, unit: Hashable, value: float, step: int = 0) -> bool:
        """Adds a value; returns whether the unit is new to the arm."""
        if self.limits is None:
            low, high = self._seen or (value, value)
            self._seen = (min(low, value), max(high, value))
        known = self._units.get((arm, unit))
        if known is None:
            self._units[arm, unit] = _Unit(step, value)
            self.samples.setdefault(arm, Sample()).add(value)
            self._by_step.setdefault(arm, {}).setdefault(step, Sample()).add(value)
            return True
        before = known.value
        known.count += 1
        known.value += (value - before) / known.count
        self.samples[arm].replace(before, known.value)
        self._by_step[arm][known.step].replace(before, known.value)
        return False

    def count(self, arm: int, trials: int, events: int) -> None:
        """Sets the arm's sample to ``trials`` values: ``events`` ones, and zeros for the rest."""
        if trials:
            share = events / trials
            sample = Sample(trials, share, trials * share * (1 - share))
            self.samples[arm], self._by_step[arm] = sample, {0: sample}

    def n(self, arm: int) -> int:
        return self.samples[arm].n if arm in self.samples else 0

    def variance(self, arm: int, other: int | None = None) -> float:
        """Variance of one observation of the arm, never less than that of both arms together: in a small arm of a rare
        event it is often far too small, and that is when an interval is wrong."""
        low, high = self._range()
        here = self.samples.get(arm) or Sample()
        own = here.variance(low, high)
        there = self.samples.get(other) if other is not None else None
        if there is None or not here.n:
            return own
        pooled = (here.n * own + there.n * there.variance(low, high)) / (here.n + there.n)
        return max(own, pooled)

    def is_unknown(self) -> bool:
        """Whether nothing tells how much the values vary."""
        return self.limits is None and self._seen is None

    def mean(self, arm: int) -> Estimate | None:
        sample = self.samples.get(arm)
        return Estimate(sample.mean, self.variance(arm) / sample.n) if sample else None

    def difference(self, control: int, challenger: int) -> Estimate | None:
        """Mean of the challenger minus that of the control, within each step of the ramp, then over the steps by their
        information: arms that had other shares at other times are not compared across times. None while no step has users
        of both."""
        ours, theirs = self._by_step.get(challenger, {}), self._by_step.get(control, {})
        mine, other = self.variance(challenger, control), self.variance(control, challenger)
        information = score = 0.0
        for step in ours.keys() & theirs.keys():
            weight = 1 / (mine / ours[step].n + other / theirs[step].n)
            information += weight
            score += weight * (ours[step].mean - theirs[step].mean)
        return Estimate(score / information, 1 / information) if information else None

    def _range(self) -> tuple[float, float]:
        if self.limits is not None:
            return self.limits
        low, high = self._seen or (0.0, 0.0)
        middle = (low + high) / 2
        margin = self.margin or (0.0 if high > low else abs(low) or 1.0)  # one value so far says nothing of the range
        return min(low, middle - margin), max(high, middle + margin)
