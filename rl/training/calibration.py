"""Whether a reward model is as sure as it is right."""

from __future__ import annotations

import math
from collections.abc import Sequence

BINS = 10


def expected_calibration_error(margins: Sequence[float]) -> float:
    """0 to 1: by how much the confidence in the preferred answer and the share of right ones differ, on average over pairs.

    ``margins``: the number of the better answer less that of the worse one. A confidence is 0.5 to 1, cut into BINS equal
    bins. Pairs with equal numbers are half right.
    """
    bins: list[list[tuple[float, float]]] = [[] for _ in range(BINS)]
    for margin in margins:
        confidence = 1 / (1 + math.exp(-min(abs(margin), 700.0)))
        right = 0.5 if margin == 0 else float(margin > 0)
        bins[min(int((confidence - 0.5) * 2 * BINS), BINS - 1)].append((confidence, right))
    gaps = (abs(sum(confidence - right for confidence, right in pairs)) for pairs in bins)
    return sum(gaps) / len(margins) if margins else 0.0
