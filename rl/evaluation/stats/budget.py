"""How sure the gate has to be at each look, so that all looks of an agent together promote by chance in 5 % at most.

A look is a new version that the gate judges; looks are counted from the last promotion on, which starts the budget anew.
The errors of all looks add up to no more than the sum of their levels, however the looks depend on each other: they may
share their held-out prompts (Bonferroni's inequality; alpha spending). Half of the budget goes to the first few looks, when
an agent has few prompts and the most to gain, half is spread so thinly that look 150 has a share of it too:

    level(k) = TOTAL (1 / (k (k + 1)) + SLOW / ((k + SLOW - 1) (k + SLOW))) / 2

Both series telescope to 1: after K looks, 1 - 1 / (K + 1) of the first is used, and 1 - SLOW / (K + SLOW) of the second.

People's picks have a budget of their own, as money that is staked: a new version that they are asked about is promoted
when its stake times its E (``bets``) is 1. What a version that was not promoted has not lost goes back. While none is
better, the money that is left and the stakes times E together are not expected to grow; they begin at TOTAL, and so are ever
1 in no more than TOTAL of all cases (Ville's inequality), however many versions there are."""

from collections.abc import Sequence
from typing import Final, NamedTuple

TOTAL = 0.05
"""The error of all looks between two promotions together, however many."""
SLOW = 100
"""Looks after which half of the second half is used."""
FIRST_STAKE: Final = 0.013
"""What is staked of TOTAL on the first version that people are asked about; one-sided error, as all stakes."""
LATER_STAKES: Final = 0.02
"""The share of what is left that is staked on each later one."""


class Look(NamedTuple):
    """What a look at a new version may promote by."""

    level: float
    """One-sided error, 0 to 0.5: how likely a version that is not better may be promoted."""
    next_level: float
    """That of the look after it, at which a better version would be judged."""
    number: int | None = None
    """Since the last promotion, from 1; None outside a series of looks."""

    @property
    def confidence(self) -> float:
        """Two-sided, for the interval that has to lie above the line."""
        return 1 - 2 * self.level


ONCE = Look(0.025, 0.025)
"""A comparison that is made once: a 95 % interval."""


def level(look: int) -> float:
    """The one-sided error that look number ``look`` since the last promotion may use. Raises ValueError below 1."""
    if look < 1:
        raise ValueError(f"looks count from 1, not {look}")
    early = 1 / (look * (look + 1))
    late = SLOW / ((look + SLOW - 1) * (look + SLOW))
    return TOTAL * (early + late) / 2


def at_look(number: int) -> Look:
    """Raises ValueError below 1."""
    return Look(level(number), level(number + 1), number)


def stake(before: Sequence[tuple[float, float]]) -> float:
    """What is staked on the next version. ``before``: stake and E of those that people were asked about since the last
    promotion. No more than its stake goes back of any, or the luck of one would pay for another."""
    left = TOTAL - sum(staked * (1 - min(evidence, 1)) for staked, evidence in before)
    return LATER_STAKES * left if before else FIRST_STAKE
