"""How many held-out prompts a comparison needs."""

import math
from statistics import NormalDist
from typing import NamedTuple

POWER = 0.8
"""How often a comparison of so many prompts would find a difference of this size."""
GAINS = (0.10, 0.05, 0.02, 0.01)
"""That a plan may be made for, of accuracy or reward."""


class SampleSizePlan(NamedTuple):
    """What more prompts are good for."""

    gain: float
    """How much better a version is that would be promoted with ``POWER``."""
    more: int
    """Prompts, besides those there are."""


def plan(variance: float, prompts: int, level: float, margin: float = 0.0) -> SampleSizePlan | None:
    """For the largest of ``GAINS`` that takes at least twice the ``prompts`` there are: the number is then right within a
    factor of 1.5 in most cases, as it hangs on the ``variance`` of one prompt's change alone. None where all take fewer."""
    for gain in GAINS:
        needed = prompts_for_gain(variance, gain + margin, level)
        if needed >= 2 * prompts:
            return SampleSizePlan(gain, needed - prompts)
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
