"""Intervals of a share."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from rl.base.measurements import Interval


def wilson(successes: float, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for a proportion. Raises ValueError for no trials or successes outside 0 to n."""
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials")
    z = z_of(confidence)
    share = successes / n
    # (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n), p the share
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(share, max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half)))


@lru_cache
def z_of(confidence: float) -> float:
    """Two-sided critical value of the normal distribution. Raises ValueError."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    return NormalDist().inv_cdf((1 + confidence) / 2)
