"""Whose token it is. An answer may be a run of many turns, and only what the model said in it is learned.

In the token ids of an answer, those that the model did not say (results of tools, what a user said in between) are
complements: ``~id``, which is below 0. So a cut, a copy or a file never parts the ids from their mask, and whoever forgets
to read them gets an error from the model instead of learning what tools said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def of_others(ids: Iterable[int]) -> list[int]:
    """Plain ids as ids that the model did not say."""
    return [~number for number in ids]


def plain(ids: Iterable[int]) -> list[int]:
    """As the model reads them."""
    return [number if number >= 0 else ~number for number in ids]


def own_mask(ids: Iterable[int]) -> list[int]:
    """1 for each id that the model said, else 0."""
    return [int(number >= 0) for number in ids]


def count_own(ids: Iterable[int]) -> int:
    return sum(own_mask(ids))


def split(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Plain ids and which of them the model said, both of the shape of ``ids``."""
    own = ids >= 0
    return ids.where(own, ~ids), own


def without_rest(ids: Sequence[int]) -> list[int]:
    """Up to the last id that the model said."""
    last = max((position for position, number in enumerate(ids) if number >= 0), default=-1)
    return list(ids[: last + 1])
