"""Draws a token a row from a model's scores, by one random number each.

The distribution is that of transformers' warpers in their order, temperature, ``top_k``, ``top_p``, and of its multinomial
draw, which takes a random number for each word of the vocabulary and sorts all of it.

Shapes: B rows, V words of the vocabulary, W of them that are looked at.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from transformers import LogitsProcessor

_FIRST: Final = 1024
"""Likeliest words among which the share ``top_p`` is looked for before all are sorted."""
_NEVER: Final = float("-inf")


class Draw(LogitsProcessor):
    """Leaves of the scores (B, V) one in each row, which is then the likeliest. By torch's global generator."""

    def __init__(self, temperature: float, top_p: float, top_k: int) -> None:
        """``top_k``: 0: all words; ``top_p``: 1: all words."""
        self._temperature, self._top_p, self._top_k = temperature, top_p, top_k

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        values, words = keep_likely(scores / self._temperature, self._top_p, self._top_k)
        drawn = draw(values)  # (B, 1)
        if words is not None:
            drawn = words.gather(1, drawn)
        return torch.full_like(scores, _NEVER).scatter_(1, drawn, 0.0)


def draw(scores: Tensor) -> Tensor:
    """(B, 1): of (B, W) the place of one in each row, as likely as its softmax says.

    Raises RuntimeError for scores that are not numbers.
    """
    upto = scores.double().softmax(dim=-1).cumsum(dim=-1)
    total = upto[:, -1:]
    if not torch.isfinite(total).all():
        raise RuntimeError("the scores of the next token are not numbers")
    return torch.searchsorted(upto, torch.rand_like(total) * total, right=True)


def keep_likely(scores: Tensor, top_p: float, top_k: int) -> tuple[Tensor, Tensor | None]:
    """Scores (B, W), minus infinity where they are cut off, and the words that they are of; None: all V in their order."""
    values, words = scores, None
    if 0 < top_k < scores.shape[-1]:
        values, words = _first(scores, top_k)
    if top_p >= 1:
        return values, words
    whole = values.double().logsumexp(dim=-1, keepdim=True)
    if words is None:
        values, words = _share(scores, whole, top_p)
    # a word stays while those before it have less than the share
    of_each = (values.double() - whole).exp()
    return values.masked_fill(of_each.cumsum(dim=-1) - of_each >= top_p, _NEVER), words


def _first(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest, from the first on; those that are equal to the last stay too."""
    least = scores.topk(count).values[:, -1:]
    values, words = scores.topk(int((scores >= least).sum(dim=-1).max()))
    return values.masked_fill(values < least, _NEVER), words


def _share(scores: Tensor, whole: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The largest, from the first on, with at least that share in each row."""
    values, words = scores.topk(min(_FIRST, scores.shape[-1]))
    if bool(((values.double() - whole).exp().sum(dim=-1) <= share).any()):
        values, words = scores.sort(dim=-1, descending=True)
    return values, words
