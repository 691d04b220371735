"""How much each of several raters may weigh, so that none has more than a share of all."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction


def limit(weights: Collection[int], cap: float, others: int = 0) -> Fraction | None:
    """The most that a rater may weigh; None where nobody weighs more.

    ``weights``: of each rater, 0 too. ``others``: what weighs in all without being any one rater's. It is the L of
    L = c (others + sum min(w, L)) with c = max(cap, 1 / n): n raters cannot all have less than an n-th.
    """
    if len(weights) < 2:
        return None
    share = max(Fraction(str(cap)), Fraction(1, len(weights)))
    heaviest, rest = sorted(weights, reverse=True), others + sum(weights)
    if heaviest[0] <= share * rest:
        return None
    bound = Fraction(0)
    for capped, weight in enumerate(heaviest, start=1):
        rest -= weight
        bound = share * rest / (1 - capped * share)
        if capped == len(heaviest) or heaviest[capped] <= bound:
            break
    return bound
