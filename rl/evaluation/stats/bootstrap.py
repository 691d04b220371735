"""Bootstrap intervals, clustered by prompt: prompts are drawn again, with all of their pairs.

Bias-corrected and accelerated (BCa; Efron 1987, J. Am. Stat. Assoc. 82:171-185): changes are skewed where a model gains much
and loses little, and a plain percentile interval then lies to one side. Of a mean, the acceleration has a closed form and
costs nothing.

The interval's ends are the quantiles of the resampled means at Phi(z0 + (z0 + z) / (1 - a (z0 + z))): z the normal
quantile of (1 +- confidence) / 2, z0 the bias, a the acceleration.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import NormalDist, fmean

from rl.base.measurements import Interval

RESAMPLES = 2000
SEED = 2026
"""The same changes give the same interval."""


def bootstrap_interval(
    changes: Sequence[float], confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval | None:
    """For the mean of ``changes``, one number a prompt. None for fewer than two, and for one that is not a finite number; a
    point where all are equal."""
    if len(changes) < 2 or not all(map(math.isfinite, changes)):
        return None
    value = fmean(changes)
    if min(changes) == max(changes):
        return Interval(value, value, value)
    means = _means_of_resamples(changes, resamples, seed)
    low, high = (
        _corrected_share(share, means, value, changes) for share in ((1 - confidence) / 2, (1 + confidence) / 2)
    )
    return Interval(value, _quantile(means, low), _quantile(means, high))


def _means_of_resamples(changes: Sequence[float], resamples: int, seed: int) -> list[float]:
    """In ascending order."""
    generator, n = random.Random(seed), len(changes)  # noqa: S311  statistics, not secrets
    # Rounded, so that equal means of thirds compare equal, whatever the order in which they were added.
    return sorted(round(sum(generator.choices(changes, k=n)) / n, 12) for _ in range(resamples))


def _corrected_share(share: float, means: Sequence[float], value: float, changes: Sequence[float]) -> float:
    """The share of the resamples at which the interval ends, where an unbiased, symmetric one would end at ``share``."""
    normal = NormalDist()
    # z0: how far the value lies from the median of the resamples, as a normal quantile
    bias = normal.inv_cdf(_share_below(means, round(value, 12)))
    shifted = bias + normal.inv_cdf(share)
    return normal.cdf(bias + shifted / (1 - _acceleration(changes, value) * shifted))


def _share_below(means: Sequence[float], value: float) -> float:
    """Equal ones count half; never quite 0 or 1, whose normal quantiles are infinite."""
    below = sum(mean < value for mean in means) + sum(mean == value for mean in means) / 2
    return min(max(below, 0.5), len(means) - 0.5) / len(means)


def _acceleration(changes: Sequence[float], value: float) -> float:
    """A sixth of the skewness of the mean, from leaving out one prompt after another."""
    deviations = [change - value for change in changes]
    spread = math.fsum(deviation * deviation for deviation in deviations)
    return math.fsum(deviation**3 for deviation in deviations) / (6 * spread**1.5)


def _quantile(ordered: Sequence[float], share: float) -> float:
    # linear between the two nearest, as NumPy does
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
