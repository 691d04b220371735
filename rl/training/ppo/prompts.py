"""The prompts of each batch of PPO, in an order that the seed alone decides."""

from __future__ import annotations

import json
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from rl.base.records import silent
from rl.lm.encoding import encode


class Prompts:
    """Each pass over the rows has an order of its own; batches go on from one pass into the next.

    ``rows``: as ``tokenised_prompts`` leaves them.
    """

    def __init__(self, rows: Dataset, tokenizer: PreTrainedTokenizerBase, seed: int) -> None:
        self._rows, self._tokenizer, self._seed = rows, tokenizer, seed

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, number: int, size: int) -> list[dict[str, Any]]:
        """Rows of the training set, and their ``prompt_ids``."""
        rows = [json.loads(self._row(position)["row"]) for position in range(number * size, (number + 1) * size)]
        encoded = encode(self._tokenizer, rows, len(rows), silent, ())
        return [{**row, "prompt_ids": ids["prompt_ids"]} for row, ids in zip(rows, encoded, strict=True)]

    def _row(self, position: int) -> Any:
        epoch, index = divmod(position, len(self._rows))
        return self._rows[self._order(epoch)[index]]

    def _order(self, epoch: int) -> list[int]:
        generator = torch.Generator().manual_seed(self._seed + epoch)
        return torch.randperm(len(self._rows), generator=generator).tolist()
