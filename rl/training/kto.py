"""Kahneman-Tversky Optimization (Ethayarajh et al., 2024) of a LoRA adapter, by TRL's KTOTrainer.

Rows: ``prompt``, ``completion``, each a list of chat messages, and ``label``, true for a good answer.

Minimises the mean of w_good (1 - sigmoid(beta (r - z))) over good answers and w_bad (1 - sigmoid(beta (z - r))) over
bad ones, where r = log p(answer) / ref(answer) says how much likelier the answer has become than it was in the model
that training started from, and z how far the model has moved in general: the mean of r over answers to other prompts of
the same forward pass, at least 0, and without a gradient.

Departs from TRL as dpo.py does, and in these ways: rows are shuffled once, before z's answers are dealt out, where TRL
keeps the order of the file; a pass holds at least two rows, or z would be of no other prompt; z's answers are cut to
the room that their new prompt leaves; and the rarer label weighs more, so that both together weigh the same (TRL: both
1).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from datasets import Dataset, Features, List, Value
from peft import PeftModel
from transformers import PreTrainedModel
from trl import KTOConfig, KTOTrainer

from rl.base.errors import NotEnoughData
from rl.base.records import Report, TrainingResult
from rl.config import TrainingConfig
from rl.config.training_job import TrainingJob
from rl.lm import processes
from rl.training import fitting
from rl.training.dpo import OnTokenIds, fit_preferences, preference_arguments
from rl.training.imitating import warm_up
from rl.training.preparing import Start, encoded_rows, prepare


def train(job: TrainingJob, report: Report) -> TrainingResult:
    job = replace(job, config=at_least_two_rows_a_pass(job.config, report))
    with prepare(job, report) as start:
        # rows: prompt_ids, completion_ids and label, on disk
        rows, lengths = encoded_rows(start, "kto")
        of_labels = _weights(rows, report)
        # order: fixed from here on, so that row i of a pass is known before the trainer runs
        rows = rows.shuffle(seed=int(job.config.seed))
        rows = with_other_answers(rows, start, "KL_completion_ids", itemgetter("completion_ids"))
        # warm-up: imitates the good answers alone
        good = ((row["prompt_ids"], row["completion_ids"]) for row in iter(rows) if row["label"])
        trainer = _trainer(start, warm_up(start, good), rows, of_labels)
        return fit_preferences(start, trainer, rows, lengths)


class _Trainer(OnTokenIds, KTOTrainer):
    REFERENCE = {"completion_ids": "ref_logps", "KL_completion_ids": "ref_KL_logps"}


def _weights(rows: Dataset, report: Report) -> dict[str, float]:
    """The rarer label's weight makes up for its number, as the paper advises for imbalanced data."""
    count = Counter(rows["label"])
    good, bad = count[True], count[False]
    if not good or not bad:
        only = "good" if good else "bad"
        raise NotEnoughData(f"all {len(rows)} rows that fit are {only}, and KTO learns from the difference")
    of_good, of_bad = label_weights(good, bad)
    counts = f"a good one counts {of_good:.2f} times, a bad one {of_bad:.2f} times"
    report("log", {"text": f"{good} good and {bad} bad answers: {counts}"})
    return {"desirable_weight": of_good, "undesirable_weight": of_bad}


def _trainer(start: Start, model: PreTrainedModel | PeftModel, rows: Dataset, weights: dict[str, float]) -> _Trainer:
    of_kto = {**preference_arguments(start.job.config), **weights}
    return _Trainer(**fitting.parts(start, model, rows, KTOConfig, **of_kto))


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
    needs: Callable[[Mapping[str, Any]], bool] = lambda _: True,
) -> Dataset:
    """Gives each row of a pass with a row that ``needs`` it the answer of the row before it in its pass, the first row that
    of the last, in a new column; in other passes nothing. ``map`` cuts the rows into the same passes as the trainer does,
    because the order is fixed."""

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
