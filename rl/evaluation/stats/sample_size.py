"""How many held-out prompts a comparison needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from statistics import NormalDist, stdev
from typing import Any, NamedTuple

from rl.base.measurements import z_of
from rl.evaluation.stats.intervals import PairedCounts, bootstrap_interval, counts_of, mcnemar

POWER = 0.8
"""How often a comparison of so many prompts would find a difference of this size."""
GAINS = (0.10, 0.05, 0.02, 0.01)
"""That a plan may be made for, of accuracy or reward."""


class Plan(NamedTuple):
    """What more prompts are good for."""

    gain: float
    """How much better a version is that would be promoted with ``POWER``."""
    more: int
    """Prompts, besides those there are."""


def plan(variance: float, prompts: int, level: float, margin: float = 0.0) -> Plan | None:
    """For the largest of ``GAINS`` that takes at least twice the ``prompts`` there are: the number is then right within a
    factor of 1.5 in most cases, as it hangs on the ``variance`` of one prompt's change alone. None where all take fewer."""
    for gain in GAINS:
        needed = prompts_for_gain(variance, gain + margin, level)
        if needed >= 2 * prompts:
            return Plan(gain, needed - prompts)
    return None


def prompts_for_gain(variance: float, gain: float, level: float) -> int:
    """Prompts with which a comparison at the one-sided ``level`` promotes a version that is ``gain`` above the line, with
    ``POWER``. ``variance``: of one prompt's change."""
    z_error, z_power = _critical_values(level)
    # ((z_error + z_power) / gain)^2 variance; for Student's t z_error^2 / 2 more (Guenther 1981, Am. Stat. 35:243-244)
    return math.ceil(((z_error + z_power) / gain) ** 2 * variance + z_error**2 / 2)


def gain_of_prompts(variance: float, prompts: int, level: float) -> float:
    """The reverse: how far above the line a version is that so many prompts promote with ``POWER``; may be infinite."""
    z_error, z_power = _critical_values(level)
    free = prompts - z_error**2 / 2
    return (z_error + z_power) * math.sqrt(variance / free) if free > 0 else math.inf


def _critical_values(level: float) -> tuple[float, float]:
    normal = NormalDist()
    return normal.inv_cdf(1 - level), normal.inv_cdf(POWER)


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


def describe_evidence(changes: Sequence[float], margin: float, are_shares: bool = True) -> dict[str, Any]:
    """What else the held-out prompts say, beside the interval that the gate decides by. ``changes``: of each prompt's share
    of right pairs, or of a task's success, -1 to 1; or else of each prompt's reward."""
    interval = bootstrap_interval(changes)
    shares = counts_of(changes) if are_shares else None
    needed = prompts_for_power_of_counts(shares, margin) if shares else prompts_for_power_of_means(changes, margin)
    return {
        **({"mcnemar": asdict(mcnemar(changes))} if are_shares else {}),
        "bootstrap": asdict(interval) if interval else None,
        "prompts_for_power": {"prompts": needed, "power": POWER},
        "margin": margin,
    }
