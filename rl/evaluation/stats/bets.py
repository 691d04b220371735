"""Evidence of duels that holds at every look: whoever picks may look after each pick, and stop at any.

Somebody who doubts that the new version is preferred stakes a share c of his money on each pick. His money grows by 1 + c y,
y = 2x - 1, where x is how often the new version's answer was taken at that prompt: 1, 0, or between where several people
picked; a tie is a half. If people prefer it in no more than half of the duels, he cannot expect to gain, and has ever
1 / level times what he began with in no more than ``level`` of all cases (Ville 1939; Waudby-Smith and Ramdas 2024, J. R.
Stat. Soc. B 86:1-27). The stake that is best depends on the share that nobody knows; so E is the mean over several:

    E = mean over c of the product of 1 + c y over the prompts,     c = 0.05, 0.10, … 0.65

Against another share q than one half, y = (x - q) / q for who bets on more, and (q - x) / (1 - q) for who bets on less."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from rl.base.measurements import Interval

STAKES: Final = tuple(number / 100 for number in range(5, 70, 5))
MOST_PICKS: Final = 160
"""Prompts after which no clear difference is to be expected."""
HOPELESS_BELOW: Final = 0.25
"""E below which nobody is asked any more."""
_HALVINGS: Final = 40


def evidence(shares: Sequence[float], share: float = 0.5) -> float:
    """E that people take the new version more often than ``share``, 0 to 1 and neither. ``shares``: x of each prompt."""
    return _mean_product([(x - share) / share for x in shares])


def evidence_against(shares: Sequence[float], share: float = 0.5) -> float:
    """E that they take it less often."""
    return evidence([1 - x for x in shares], 1 - share)


def _mean_product(gains: Sequence[float]) -> float:
    return math.fsum(math.exp(math.fsum(math.log1p(c * y) for y in gains)) for c in STAKES) / len(STAKES)


def interval(shares: Sequence[float], error: float = 0.05) -> Interval:
    """The shares that neither bettor has refuted at ``error`` / 2: the true one is among them, at every look, in
    1 - ``error`` of all cases. The value is the mean; one half where there are no picks."""
    value = math.fsum(shares) / len(shares) if shares else 0.5
    low = _refuted_until(shares, error / 2)
    return Interval(value, low, 1 - _refuted_until([1 - x for x in shares], error / 2))


def _refuted_until(shares: Sequence[float], level: float) -> float:
    """The largest share that E refutes, by bisection: the larger the share, the smaller is E."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if evidence(shares, middle) >= 1 / level else (low, middle)
    return low


def least_more(shares: Sequence[float], level: float, share: float = 0.5) -> int:
    """How many more picks decide at ``level``, if all go to the new version."""
    more = 0
    while evidence([*shares, *[1.0] * more], share) < 1 / level:
        more += 1
    return more


@lru_cache
def picks_needed(preferred: float, level: float, share: float = 0.5, power: float = 0.8) -> int | None:
    """Picks, none of them a tie, within which a version that people take at this share is promoted with ``power``. None
    where MOST_PICKS are too few."""
    wins, losses = math.log(1 / level), [1.0]
    gained = [math.log1p(c * (1 - share) / share) for c in STAKES]
    lost = [math.log1p(-c) for c in STAKES]
    promoted = 0.0
    # losses[w]: how likely there were w wins among the picks so far, and E never reached 1 / level
    for number in range(1, MOST_PICKS + 1):
        after = [0.0] * (number + 1)
        for won, chance in enumerate(losses):
            after[won + 1] += chance * preferred
            after[won] += chance * (1 - preferred)
        for won, chance in enumerate(after):
            logs = [won * up + (number - won) * down for up, down in zip(gained, lost, strict=True)]
            if chance and math.log(math.fsum(map(math.exp, logs)) / len(STAKES)) >= wins:
                promoted, after[won] = promoted + chance, 0.0
        if promoted >= power:
            return number
        losses = after
    return None
