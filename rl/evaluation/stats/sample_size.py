"""How many held-out prompts a comparison needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, stdev

from rl.evaluation.stats.intervals import PairedCounts, difference_interval, z_of

MOST_PROMPTS = 10_000_000
"""Where the search for a needed number of prompts gives up."""
POWER = 0.8
"""How often a comparison of so many prompts would find a difference of this size."""


def needed_prompts(counts: PairedCounts, confidence: float = 0.95, margin: float = 0.0) -> int | None:
    """Fewest held-out prompts, gained and lost at the observed rates, whose interval would lie on one side of -``margin``.

    None when the difference is -``margin`` (or nothing was measured): then no number can be told from these counts.
    """
    if not counts.prompts or math.isclose(counts.difference, -margin, abs_tol=1e-12):
        return None
    # the fewest that settle it: doubled until they do, then bisected
    high = 1
    while not _settles(counts, high, confidence, margin):
        high *= 2
        if high > MOST_PROMPTS:
            return None
    low = high // 2  # does not settle it, unless high is 1
    while high - low > 1:
        middle = (low + high) // 2
        if _settles(counts, middle, confidence, margin):
            high = middle
        else:
            low = middle
    return high


def _settles(counts: PairedCounts, prompts: int, confidence: float, margin: float) -> bool:
    scale = prompts / counts.prompts
    interval = difference_interval(PairedCounts(prompts, counts.gained * scale, counts.lost * scale), confidence)
    return interval.low > -margin or interval.high < -margin


def prompts_for_power(
    gained: float, lost: float, *, margin: float = 0.0, confidence: float = 0.95, power: float = POWER
) -> int | None:
    """Prompts with which a comparison finds, with ``power``, that the difference is not -``margin``.

    ``gained``, ``lost``: shares of the prompts, 0 to 1. Without a margin by Connor (1987, Biometrics 43:207-211); with one
    by Wald's statistic (Liu et al. 2002, Stat. Med. 21:231-245). None where the difference is -``margin``.
    """
    difference, differing = gained - lost, gained + lost
    if math.isclose(difference, -margin, abs_tol=1e-12):
        return None
    # variance of one prompt's change; if there were no difference it would be ``differing``
    z_error, z_power, variance = z_of(confidence), NormalDist().inv_cdf(power), differing - difference**2
    if margin:
        return math.ceil(((z_error + z_power) / (difference + margin)) ** 2 * variance)
    return math.ceil(((z_error * math.sqrt(differing) + z_power * math.sqrt(max(0.0, variance))) / difference) ** 2)


def prompts_for_power_of_counts(counts: PairedCounts, margin: float = 0.0, confidence: float = 0.95) -> int | None:
    """At the rates that the interval works with: one is added to each count, so that a few equal prompts prove nothing."""
    if not counts.prompts:
        return None
    n = counts.prompts + 2
    return prompts_for_power((counts.gained + 1) / n, (counts.lost + 1) / n, margin=margin, confidence=confidence)


def prompts_for_power_of_means(
    changes: Sequence[float], margin: float = 0.0, confidence: float = 0.95, power: float = POWER
) -> int | None:
    """The same for a mean of ``changes``, one number a prompt, by the normal approximation. None for fewer than two."""
    if len(changes) < 2 or not all(map(math.isfinite, changes)):
        return None
    # ((z_error + z_power) s / (mean + margin))^2, s the deviation of the changes
    away = math.fsum(changes) / len(changes) + margin
    if math.isclose(away, 0, abs_tol=1e-12):
        return None
    return max(2, math.ceil(((z_of(confidence) + NormalDist().inv_cdf(power)) * stdev(changes) / away) ** 2))
