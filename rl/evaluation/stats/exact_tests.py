"""McNemar's exact test of whether two models differ on the same prompts.

Only prompts on which they differ count: if the models were equally good, each would fall to one or the other by the throw of
a coin. The mid-p value of Fagerland, Lydersen and Laake (2013, BMC Med. Res. Methodol. 13:91) takes half of the probability
of what was seen off each tail; the exact test rejects too seldom.

Fisher's exact randomisation test of paired changes: how often would chance do as well, if each change were as likely the
other way round?

Where the two versions are equally good, so that they could change names, it is exact for any number of prompts, at any
level. Of changes that are all 1 or -1 it is McNemar's exact test, one-sided. The intervals are approximations that promise
too much where few prompts have to show 99.9 %: eight gains of eight prompts are one case in 256 of mere chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

STEPS = 20
"""Changes are rounded to so many parts of the largest; the test is exact for the rounded ones."""


@dataclass(frozen=True, slots=True)
class McNemar:
    gained: int
    """Prompts on which the new model does better."""
    lost: int
    """The reverse."""
    p: float
    """Two-sided and exact, 0 to 1."""
    mid_p: float
    """Two-sided; what to compare with 0.05."""


def mcnemar(changes: Sequence[float]) -> McNemar:
    """``changes``: one number a prompt; of prompts with several pairs only the sign counts."""
    gained, lost = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    p, mid_p = mcnemar_p(gained, lost)
    return McNemar(gained, lost, p, mid_p)


def mcnemar_p(gained: int, lost: int) -> tuple[float, float]:
    """The two-sided exact and mid-p values. Raises ValueError for counts below zero."""
    if gained < 0 or lost < 0:
        raise ValueError(f"{gained} gained, {lost} lost")
    # fewer ~ Binomial(n, 1/2) if the models are equally good
    n, fewer = gained + lost, min(gained, lost)
    if n == 0:
        return 1.0, 1.0
    # by logarithms: from n = 1075 on 0.5 to the power of n is too small for a float
    logarithm = math.lgamma(n + 1) - math.lgamma(fewer + 1) - math.lgamma(n - fewer + 1) - n * math.log(2)
    seen = tail = term = math.exp(logarithm)
    if gained == lost:
        return 1.0, 1 - seen / 2
    # downwards, each term from the one before: P(k - 1) = P(k) k / (n - k + 1), until it rounds away
    for k in range(fewer, 0, -1):
        if term <= tail * 1e-17:
            break
        term *= k / (n - k + 1)
        tail += term
    # two-sided: both tails, which are equal
    p = min(1.0, 2 * tail)
    return p, p - seen


def sign_flip_p(changes: Sequence[float]) -> float:
    """One-sided, 0 to 1: the share of all ways to turn the signs whose sum is at least that of ``changes``, which must be
    finite numbers. Time grows with the square of the changes that are not zero: at most 0.2 s for 500."""
    unit = max(map(abs, changes), default=0.0) / STEPS
    rounded = [step for change in changes if unit and (step := round(change / unit))]
    common = math.gcd(*rounded)
    steps = [step // common for step in rounded]
    # shares[k]: of all ways, those in which the changes that count as gains sum up to k steps
    shares = [1.0]
    for step in map(abs, steps):
        kept, turned = shares + [0.0] * step, [0.0] * step + shares
        shares = [(one_way + other_way) / 2 for one_way, other_way in zip(kept, turned, strict=True)]
    return sum(shares[sum(step for step in steps if step > 0) :])
