"""The rows of a pass, padded on either side, and the tree that they make."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from rl.lm.token_tree.plan import Tokens, TokenTree

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
