"""Running statistics of the users of an experiment, by arm and step of its ramp.

A user (or conversation) is one observation, however much he rates: the mean of what he said about an arm. Ratings of one
user resemble each other, and counting them one by one would make every interval too narrow.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from rl.serving.experiments.sequential import Estimate

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
class Tally:
    """Statistics of one metric. ``limits``: the range of its values; None for outcomes, whose range is what was seen so
    far, and at least ``margin`` to each side of its middle."""

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
