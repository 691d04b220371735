"""The likely truth of items that several raters voted on, and how often each rater is right: the one-coin model of Dawid and
Skene (1979, Applied Statistics 28:20-28), by expectation and maximisation.

A rater is right with one probability, whatever the item, and what is true is either as likely. Items with fewer than
LEAST_VOTES votes do not show the right label, and are left out. A rater of whom little is known has PRIOR_RIGHT, as if he
had been seen PRIOR_VOTES times before: this also tells the truth from its opposite, which would fit the votes as well."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

LEAST_VOTES: Final = 3
LEAST_ITEMS: Final = 20
"""With LEAST_VOTES votes or more: with fewer, the right label would be a guess."""
PRIOR_RIGHT, PRIOR_VOTES = 0.8, 5.0
ROUNDS: Final = 50
NAMED: Final = 0.5
"""Whoever is right less often than this is worse than a coin."""
_CLOSE: Final = 1e-6
_BOUNDS: Final = (0.02, 0.98)
"""No rater is quite sure, or one vote would outweigh all others."""
Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Reliability:
    accuracy: Mapping[str, float]
    """For each rater how often he is right, 0 to 1."""
    votes: Mapping[str, int]
    """What that rests on."""

    def weight(self, rater: str) -> float:
        """The log odds that he is right; below 0 where the opposite of his vote is more likely true."""
        right = self.accuracy.get(rater, PRIOR_RIGHT)
        return float(np.log(right / (1 - right)))

    def posterior(self, votes: Sequence[tuple[str, bool]]) -> float:
        """The probability that yes is true, 0 to 1; each vote is a rater and whether he says yes."""
        logit = sum(self.weight(rater) * (1 if yes else -1) for rater, yes in votes)
        return float(1 / (1 + np.exp(-np.clip(logit, -30, 30))))

    def worse_than_chance(self) -> set[str]:
        return {rater for rater, right in self.accuracy.items() if right < NAMED}


def fit(items: Mapping[Item, Sequence[tuple[str, bool]]]) -> Reliability | None:
    """None with fewer than LEAST_ITEMS items of LEAST_VOTES votes."""
    counted = [votes for votes in items.values() if len(votes) >= LEAST_VOTES]
    if len(counted) < LEAST_ITEMS:
        return None
    raters = sorted({rater for votes in counted for rater, _ in votes})
    numbers = {rater: number for number, rater in enumerate(raters)}
    item = np.repeat(np.arange(len(counted)), [len(votes) for votes in counted])
    rater = np.array([numbers[name] for votes in counted for name, _ in votes])
    vote = np.array([1.0 if yes else -1.0 for votes in counted for _, yes in votes])
    accuracy = _maximise(item, rater, vote, len(raters))
    seen = np.bincount(rater, minlength=len(raters))
    return Reliability(
        dict(zip(raters, map(float, accuracy), strict=True)), dict(zip(raters, map(int, seen), strict=True))
    )


def _maximise(item: np.ndarray, rater: np.ndarray, vote: np.ndarray, raters: int) -> np.ndarray:
    """``item``, ``rater``, ``vote`` (-1 or 1) of each vote."""
    accuracy, seen = np.full(raters, PRIOR_RIGHT), np.bincount(rater, minlength=raters)
    for _ in range(ROUNDS):
        weights = np.log(accuracy / (1 - accuracy))
        yes = 1 / (1 + np.exp(-np.bincount(item, weights=weights[rater] * vote)))
        right = np.bincount(rater, weights=np.where(vote > 0, yes[item], 1 - yes[item]), minlength=raters)
        before, accuracy = accuracy, (right + PRIOR_RIGHT * PRIOR_VOTES) / (seen + PRIOR_VOTES)
        accuracy = np.clip(accuracy, *_BOUNDS)
        if float(np.abs(accuracy - before).max()) < _CLOSE:
            break
    return accuracy
