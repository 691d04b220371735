"""Batches of a reward model's training and their loss: P pairs and S single scored answers, in any mixture.

Shapes: N = 2P + S sequences of one forward pass (all chosen ones, all rejected ones, the single ones), T tokens of the
longest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid
from trl.trainer.utils import pad


class Sides(NamedTuple):
    """The numbers of a pass, by what they are of."""

    chosen: Tensor
    """(P,)"""
    rejected: Tensor
    """(P,)"""
    single: Tensor
    """(S,)"""


class Batches:
    """Pads rows of token ids on the right: ``input_ids`` and ``attention_mask`` (N, T), ``scores`` (S,)."""

    def __init__(self, pad_token_id: int) -> None:
        self._pad_token_id = pad_token_id

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        pairs = [row for row in rows if row["score"] is None]
        single = [row for row in rows if row["score"] is not None]
        sequences = [row[name] for name in ("chosen_ids", "rejected_ids") for row in pairs]
        ids = [torch.tensor(sequence) for sequence in (*sequences, *(row["completion_ids"] for row in single))]
        return {
            "input_ids": pad(ids, padding_value=self._pad_token_id, padding_side="right"),
            "attention_mask": pad([torch.ones_like(row) for row in ids], padding_value=0, padding_side="right"),
            "scores": torch.tensor([row["score"] for row in single], dtype=torch.float32),
        }


def sides(numbers: Tensor, scores: Tensor) -> Sides:
    """``numbers``: (N,); ``scores``: (S,)."""
    pairs = (len(numbers) - len(scores)) // 2
    return Sides(*numbers.split([pairs, pairs, len(scores)]))


def reward_loss(of: Sides, scores: Tensor, center: float) -> Tensor:
    """The mean over P pairs and S answers. ``scores``: (S,), 0 to 1."""
    of_pairs = center * (of.chosen + of.rejected) ** 2 - logsigmoid(of.chosen - of.rejected)
    of_single = binary_cross_entropy_with_logits(of.single, scores, reduction="none")
    return torch.cat([of_pairs, of_single]).mean()


def sums(of: Sides, scores: Tensor) -> Tensor:
    """What the metrics of a step are made of, (6,), so that passes without a pair or without a single answer add up: pairs,
    those in the right order, their margins; single answers, their squared errors; all numbers."""
    margins = of.chosen - of.rejected
    errors = (of.single.sigmoid() - scores) ** 2
    counts = margins.new_tensor([len(margins), len(errors)])
    right = (margins > 0).float().sum()
    total = of.chosen.sum() + of.rejected.sum() + of.single.sum()
    return torch.stack([counts[0], right, margins.sum(), counts[1], errors.sum(), total])


def metrics(added: Tensor) -> dict[str, float]:
    """``added``: (6,), as ``sums`` gives it. Of pairs and of single answers only where there are any."""
    pairs, right, margins, single, errors, total = added.tolist()
    of_pairs = {"accuracy": right / pairs, "margin": margins / pairs} if pairs else {}
    of_single = {"brier_score": errors / single} if single else {}
    return {"mean_reward": total / (2 * pairs + single), **of_pairs, **of_single}
