"""What KTO's loss needs beside a row: the answers of others in its forward pass, which are its point of reference, and a
weight for its label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from datasets import Dataset, Features, List, Value

from rl.base.records import Report
from rl.config import TrainingConfig
from rl.lm import processes
from rl.training import fitting
from rl.training.preparing import Start

AnswerOf = Callable[[Mapping[str, Any]], list[int]]
"""The answer that stands for a row in the point of reference of another."""


def label_weights(good: float, bad: float) -> tuple[float, float]:
    """For labels of which there are so many, both above 0: n_good w_good = n_bad w_bad, the lower end of the paper's range
    (equation 8)."""
    return max(1.0, bad / good), max(1.0, good / bad)


def at_least_two_rows_a_pass(config: TrainingConfig, report: Report) -> TrainingConfig:
    """Settings under which each process takes at least two rows in a pass."""
    least = 2 * processes.count()
    if config.batch_size >= least:
        return config
    passes = max(1, round(config.rows_a_step / least))
    report("log", {"text": f"the rows of a forward pass are compared: {least} rows a pass and {passes} passes a step"})
    return replace(config, batch_size=least, gradient_accumulation=passes)


def with_other_answers(
    rows: Dataset,
    start: Start,
    column: str,
    answer_of: AnswerOf,
    needs: Callable[[Mapping[str, Any]], bool] = lambda row: True,
) -> Dataset:
    """Gives each row of a pass with a row that ``needs`` it the answer of the row before it in its pass, the first row that
    of the last, in a new column; in other passes nothing.

    ``map`` cuts the rows into the same passes as the trainer does, because the order is fixed.
    """

    def pair_up(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        # (x1, y1), ..., (xB, yB) become (x1, yB), (x2, y1), ..., (xB, yB-1): the same answers as in r, to other prompts
        names = list(batch)
        of_pass = [dict(zip(names, values, strict=True)) for values in zip(*batch.values(), strict=True)]
        if not any(map(needs, of_pass)):
            return {column: [[] for _ in of_pass]}
        answers = [answer_of(row) for row in of_pass]
        room = (start.most_tokens - len(row["prompt_ids"]) for row in of_pass)
        return {column: [ids[:most] for ids, most in zip([answers[-1], *answers[:-1]], room, strict=True)]}

    return rows.map(
        pair_up,
        batched=True,
        batch_size=_rows_a_pass(start),
        features=Features({**rows.features, column: List(Value("int32"))}),  # the first pass may have no other answers
        cache_file_name=str(start.path("paired.arrow")),
        new_fingerprint="paired",  # the closure has none that is the same twice, and nothing is looked up by it
    )


def in_passes_of_a_kind(rows: Dataset, start: Start, is_of_kind: Callable[[Mapping[str, Any]], bool]) -> Dataset:
    """The rows in an order in which a pass holds rows of the kind alone or none of it, both as often in the beginning as at
    the end; what is left of either comes last. Within a kind the order stays."""
    size = _rows_a_pass(start)
    kinds: dict[bool, list[int]] = {True: [], False: []}
    for number, row in enumerate(rows):
        kinds[is_of_kind(row)].append(number)
    whole: list[tuple[float, list[int]]] = []
    rest: list[int] = []
    for numbers in kinds.values():
        count = len(numbers) // size
        cut = [numbers[first * size : (first + 1) * size] for first in range(count)]
        whole += [((position + 0.5) / count, of_pass) for position, of_pass in enumerate(cut)]
        rest += numbers[count * size :]
    order = [number for _, of_pass in sorted(whole) for number in of_pass]
    return rows.select(order + rest)


def _rows_a_pass(start: Start) -> int:
    return int(fitting.batches(start.job.config)["per_device_train_batch_size"])
