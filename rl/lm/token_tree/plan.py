"""The tree that the rows of a forward pass make: each beginning that several rows share stands in it once.

Shapes: R rows of at most L tokens, N tokens of the tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Tokens = NDArray[np.int64]
Piece = tuple[int, int]
IGNORED: Final = -100
"""Label of a token that is not scored."""

QUERIES: Final = 128
"""Most queries of a stretch: fewer are slower, more compute weights that are masked."""


@dataclass(frozen=True, slots=True)
class Branch:
    """The tokens that a row adds to the tree. They attend to all of ``path``, which ends with them, causally."""

    start: int
    stop: int
    path: tuple[Piece, ...]
    """Stretches of the tree, in the order of the row's tokens."""

    @property
    def tokens(self) -> int:
        return self.stop - self.start

    @property
    def before(self) -> int:
        """Tokens of the path that other rows have added."""
        return sum(stop - start for start, stop in self.path) - self.tokens


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbours of a branch that attend together: C queries to the M keys of ``path``."""

    start: int
    stop: int
    path: tuple[Piece, ...]
    mask: Tensor
    """(C, at most M): 0 where a query sees one of the last keys, -inf where it does not."""

    @property
    def queries(self) -> int:
        return self.stop - self.start


class TokenTree:
    """``branches`` in the order of their tokens; ``rows``: where each row's tokens stand, in the order of the rows. Where
    two rows part, each has its own copy of the last token that they share: so each token is followed by one label only, and
    a model's head needs no more than one number for each position."""

    def __init__(self, rows: Sequence[Tokens]) -> None:
        self.keys = [key_of(row) for row in rows]
        self.branches: list[Branch] = []
        self.rows: list[Tokens] = [np.empty(0, np.int64)] * len(rows)
        before, at = np.empty(0, np.int64), np.empty(0, np.int64)
        size = 0
        # rows in the order of their tokens: what a row shares with any before it, it shares with the last one
        for number in sorted(range(len(rows)), key=self.keys.__getitem__):
            row = rows[number]
            shared = count_shared(before, row)
            if shared < min(len(before), len(row)):  # else one is the beginning of the other
                shared = max(shared - 1, 0)
            added = np.arange(size, size + len(row) - shared)
            at = np.concatenate([at[:shared], added])
            if len(added):
                edges = [0, *(np.flatnonzero(np.diff(at) != 1) + 1).tolist(), len(at)]
                path = tuple((int(at[a]), int(at[b - 1]) + 1) for a, b in pairwise(edges))
                self.branches.append(Branch(size, size + len(added), path))
            self.rows[number], before, size = at, row, size + len(added)
        self.size = size
        self._stretches: dict[int | None, list[Stretch]] = {}

    @cached_property
    def positions(self) -> Tensor:
        """(1, N): how many tokens stand before each in its row."""
        flat = np.empty(self.size, np.int64)
        for at in self.rows:
            flat[at] = np.arange(len(at))
        return torch.from_numpy(flat)[None]

    def flatten(self, rows: Sequence[Tokens], ignored: int = 0) -> Tensor:
        """(1, N): a value for each token, from the first row that has another than ``ignored`` for it."""
        flat = np.full(self.size, ignored, np.int64)
        for at, values in zip(self.rows, rows, strict=True):
            there = values != ignored
            flat[at[there]] = values[there]
        return torch.from_numpy(flat)[None]

    def stretches(self, window: int | None = None) -> list[Stretch]:
        """What attends together. ``window``: tokens that a token sees at most, itself included."""
        if window not in self._stretches:
            self._stretches[window] = [part for branch in self.branches for part in _cut_branch(branch, window)]
        return self._stretches[window]


def _cut_branch(branch: Branch, window: int | None) -> Iterator[Stretch]:
    for first in range(0, branch.tokens, QUERIES):
        last = min(first + QUERIES, branch.tokens)
        # of the row's tokens: those of the queries, and from the first to the last that any of them sees
        begin, own, end = 0, branch.before + first, branch.before + last
        if window:
            begin = max(0, own + 1 - window)
        earliest = begin if window and end - begin > window else own
        queries, keys = torch.arange(own, end)[:, None], torch.arange(earliest, end)[None]
        hidden = keys > queries
        if window:
            hidden |= keys <= queries - window
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))  # to be added, which is faster
        yield Stretch(branch.start + first, branch.start + last, tuple(_cut_path(branch.path, begin, end)), mask)


def _cut_path(path: Sequence[Piece], begin: int, end: int) -> Iterator[Piece]:
    """The pieces of a path from its token ``begin`` to ``end``."""
    at = 0
    for start, stop in path:
        first, last = max(begin - at, 0), min(end - at, stop - start)
        if first < last:
            yield start + first, start + last
        at += stop - start


def key_of(row: Tokens) -> bytes:
    """Sorts as the text does."""
    return row.astype(">i4").tobytes()


def count_shared(first: Tokens, second: Tokens) -> int:
    """With how many tokens both begin."""
    both = min(len(first), len(second))
    different = np.flatnonzero(first[:both] != second[:both])
    return int(different[0]) if len(different) else both


_ANY_MASK: Final = torch.ones(1, 1, 1, 1)
"""A mask of four dimensions is handed on as it is, and the tree's attention reads none."""
Span = tuple[int, int]


class Rows:
    """``ids``: (R, L). ``spans``: where each row's tokens begin and end; each has at least one."""

    def __init__(self, ids: Tensor, spans: list[Span]) -> None:
        self.spans, self._device = spans, ids.device
        self._texts = self.cut(ids)
        self.tree = TokenTree(self._texts)

    @classmethod
    def of(cls, ids: Tensor, mask: Tensor | None) -> Rows | None:
        """None where a row has a gap or no token, or the mask, (R, L), is of another shape."""
        if mask is None:
            return cls(ids, [(0, ids.shape[1])] * len(ids))
        if mask.dim() != 2:
            return None
        starts = mask.argmax(dim=1)
        spans = list(zip(starts.tolist(), (starts + mask.sum(dim=1)).tolist(), strict=True))
        whole = all(
            stop > start and bool(row[start:stop].all()) for row, (start, stop) in zip(mask, spans, strict=True)
        )
        return cls(ids, spans) if whole else None

    def cut(self, values: Tensor) -> list[Tokens]:
        """Each row's own of (R, L)."""
        return [row[start:stop] for row, (start, stop) in zip(values.cpu().numpy(), self.spans, strict=True)]

    def inputs(self) -> dict[str, Any]:
        """What a model's layers read: (1, N) each."""
        return {
            "input_ids": self.tree.flatten(self._texts, ignored=-1).to(self._device),
            "position_ids": self.tree.positions.to(self._device),
            "attention_mask": _ANY_MASK.to(self._device),
            "token_tree": self.tree,
        }

    @cached_property
    def places(self) -> Tensor:
        """(R, L): where in the tree each position stands, 0 for padding."""
        places = np.zeros((len(self.spans), max(stop for _, stop in self.spans)), np.int64)
        for row, at, (start, stop) in zip(places, self.tree.rows, self.spans, strict=True):
            row[start:stop] = at
        return torch.from_numpy(places).to(self._device)

    @property
    def ends(self) -> Tensor:
        """(R): where in the tree each row's last token stands."""
        return torch.tensor([int(at[-1]) for at in self.tree.rows], device=self._device)
