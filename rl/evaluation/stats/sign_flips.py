"""Fisher's exact randomisation test of paired changes: how often would chance do as well, if each change were as likely the
other way round?

Where the two versions are equally good, so that they could change names, it is exact for any number of prompts, at any
level. Of changes that are all 1 or -1 it is McNemar's exact test, one-sided. The intervals are approximations that promise
too much where few prompts have to show 99.9 %: eight gains of eight prompts are one case in 256 of mere chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

STEPS = 20
"""Changes are rounded to so many parts of the largest; the test is exact for the rounded ones."""


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
