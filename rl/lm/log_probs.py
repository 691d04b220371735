"""Log-probabilities of answers, computed by the same fused head that TRL trains with.

log p(answer | prompt) = the sum over the answer's tokens that the model said of log softmax(logits)[token], in nats.

Shapes: B sequences of one forward pass, T tokens of the longest of them, prompt and answer together."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import Protocol

import numpy as np
import torch
import trl.trainer.utils
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor

from rl.base.records import Report
from rl.lm import processes
from rl.lm.own_tokens import split
from rl.lm.token_tree.plan import count_shared
from rl.lm.token_tree.sharing import shares_tokens

PromptAndAnswer = tuple[list[int], list[int]]
"""Token ids of a prompt and of an answer to it, in which tokens may be marked as not the model's own (``own_tokens``)."""


class Sequences(Protocol):
    """As much of a list as is needed here, so that the token ids can stay on disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> PromptAndAnswer: ...

    def __iter__(self) -> Iterator[PromptAndAnswer]: ...


class StoredAnswers:
    """Prompt and answer of every row of a dataset: all of the first column of answers, then all of the next. A row may lack
    the answer of a column: it has no tokens there, and is left out."""

    def __init__(self, rows: Dataset, *columns: str) -> None:
        self._rows, self._columns = rows, columns

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """The number of its column times the number of rows, and its row, for each answer that is there. Reads all rows."""
        lengths = [[len(row[column] or ()) for column in self._columns] for row in iter(self._rows)]
        # (N, C) to (C * N): one column after the other
        return np.flatnonzero(np.array(lengths).T)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> PromptAndAnswer:
        column, number = divmod(int(self.places[index]), len(self._rows))
        row = self._rows[number]
        return row["prompt_ids"], row[self._columns[column]]

    def __iter__(self) -> Iterator[PromptAndAnswer]:
        every = ((row["prompt_ids"], row[column]) for column in self._columns for row in iter(self._rows))
        return ((prompt, answer) for prompt, answer in every if answer)


TOKENS_PER_BATCH = {"cpu": 4096, "cuda": 32768, "mps": 8192}
"""Padded. Larger batches need more memory and are not faster."""

_BEGINNING = 16
"""Tokens by which texts are put in order."""


def use_compact_head() -> None:
    """Makes TRL run the language-model head at answer positions only, on a CPU too. TRL 1.16 asks this function of its own
    whether the device has Triton, and otherwise scores prompts and padding as well, because changing shapes are slow on
    accelerators that compile. A CPU does not compile: the result is the same, but for the order of sums, for a fraction of
    the time and memory. Triton's kernels ask for themselves and are not touched."""
    trl.trainer.utils._use_triton = lambda _: True


@torch.inference_mode()
def answer_log_probs(
    model: torch.nn.Module, sequences: Sequences, autocast: torch.dtype | None, report: Report
) -> list[float]:
    """Natural-log probability of each whole answer given its prompt, in the order given. ``model`` carries TRL's fused head
    (``add_fused_lm_head``). A step is reported after each batch. Processes that train together share the work."""
    device = next(model.parameters()).device
    mine = processes.own_part(len(sequences))
    scores = torch.zeros(len(mine))
    done = 0
    for batch in make_passes(model, sequences, mine, TOKENS_PER_BATCH[device.type]):
        inputs = pad_sequences([sequences[mine[index]] for index in batch], device)
        with torch.autocast(device.type, dtype=autocast, enabled=autocast is not None):
            output = model(**inputs, use_cache=False, fused_lm_head=True)
        # log_probs (B, T - 1): of every token but the first, 0 where the label is -100; their sum is the answer's, (B,)
        scores[batch] = output.log_probs.float().sum(dim=1).cpu()
        done += len(batch)
        report("step", {"step": done, "total_steps": len(mine), "metrics": {}})
    return processes.gather_items(scores.tolist())


def make_passes(model: torch.nn.Module, sequences: Sequences, numbers: range, budget: int) -> Iterator[list[int]]:
    """The sequences of ``numbers``, counted from their first, in the passes in which ``model`` reads them fastest."""
    if shares_tokens(model):
        return group_alike(sequences, numbers, budget)
    # sequences of similar length together, so that few of the B x T positions are padding
    own = islice(sequences, numbers.start, numbers.stop)
    return batches([len(prompt) + len(answer) for prompt, answer in own], budget)


def group_alike(sequences: Sequences, numbers: range, budget: int) -> Iterator[list[int]]:
    """``numbers``, counted from their first: those that begin alike stand together, so that a pass shares much. ``budget``:
    tokens of a pass, what a sequence shares with the one before it left out; a group has one sequence at least."""

    def begin(number: int) -> tuple[bytes, bytes, bytes]:
        """By which texts are put in order: not the whole of them, of which there may be gigabytes."""
        prompt, answer = sequences[number]
        ids, begins = np.array(prompt, ">i4").tobytes(), np.array(answer[:_BEGINNING], ">i4").tobytes()
        return ids[: 4 * _BEGINNING], blake2b(ids, digest_size=8).digest(), begins

    batch: list[int] = []
    size, before = 0, np.empty(0, np.int64)
    for number in sorted(numbers, key=begin):
        prompt, answer = sequences[number]
        ids = np.array(prompt + answer)
        added = len(ids) - count_shared(before, ids)
        if batch and size + added > budget:
            yield batch
            batch, size, added = [], 0, len(ids)
        batch.append(number - numbers.start)
        size, before = size + added, ids
    if batch:
        yield batch


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices grouped by similar length, so that little is padded; at least one in each group."""
    batch: list[int] = []
    # longest first: a batch is as wide as its first, and what is too large for memory fails at once
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def pad_sequences(sequences: Sequence[PromptAndAnswer], device: torch.device | None = None) -> dict[str, Tensor]:
    """Right-padded ``input_ids``, ``attention_mask`` and ``labels`` (-100 outside what the model says), each (B, T)."""
    shape = (len(sequences), max(len(prompt) + len(answer) for prompt, answer in sequences))
    # What stands at a padded position is of no importance: it is masked, and nothing after it is scored.
    ids, labels = torch.zeros(shape, dtype=torch.long), torch.full(shape, -100)
    mask = torch.zeros_like(ids)
    for row, (prompt, answer) in enumerate(sequences):
        end = len(prompt) + len(answer)
        ids[row, :end] = torch.tensor(prompt + answer)
        mask[row, :end] = 1
        # scored: the answer alone, at its own positions; the head shifts labels by one itself
        labels[row, len(prompt) : end] = torch.tensor(answer)
    ids, own = split(ids)
    labels[~own] = -100
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device), "labels": labels.to(device)}
