"""Which tokens of structured answers decide something, and which are the template around them.

Most tokens of an answer in JSON are names of fields and punctuation: a model is sure of them after a few steps, and in a
mean over all tokens the few that tell one answer from another hardly count. A token is of the template where, in all
answers, what stood before it has never led to another.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

CONTEXT: Final = 4
"""Tokens of the answer before one, by which it is foretold."""
WEIGHT: Final = 0.1
"""What a token of the template weighs, where one that decides weighs 1. With 0 a model may unlearn the template."""
_AGAIN: Final = -1
"""Stands beside a token that came more than once."""


class TemplateTokens:
    def __init__(self, answers: Iterable[Sequence[int]]) -> None:
        self._followers: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        """What stood before a token, to the tokens that came next."""
        for answer in answers:
            for at, token in enumerate(answer):
                followers = self._followers[_before(answer, at)]
                followers.add(_AGAIN if token in followers else token)

    def weights(self, answer: Sequence[int]) -> list[float]:
        """One for each token. What was seen once may be anything, and decides."""
        return [WEIGHT if self._is_certain(_before(answer, at)) else 1.0 for at in range(len(answer))]

    def _is_certain(self, before: tuple[int, ...]) -> bool:
        followers = self._followers.get(before, set())
        return _AGAIN in followers and len(followers) == 2


def _before(answer: Sequence[int], at: int) -> tuple[int, ...]:
    return tuple(answer[max(0, at - CONTEXT) : at])
