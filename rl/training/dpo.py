"""Direct Preference Optimization (Rafailov et al., 2023) of a LoRA adapter, by TRL's DPOTrainer.

Rows: ``prompt``, ``chosen``, ``rejected``, each a list of chat messages.

Minimises -log sigmoid(beta (log p(chosen) / ref(chosen) - log p(rejected) / ref(rejected))), the mean over pairs, where
p is the trained model's probability of a whole answer, and ref that of the model it started from: the base model, or
what imitating good answers has made of it. This is the loss ``sigmoid``; ``preference_loss`` names another one of TRL's, or
a weighted sum of some.

Departs from TRL in four ways: rows are tokenised here (long ones counted, too many of them refused); the base model's
answers are scored once when there is more than one epoch; dropout is off in the base model but on in the adapter; the
language-model head runs at answer positions only. Runs on one CPU or GPU.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from itertools import chain, islice
from typing import Any, ClassVar

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from peft import PeftModel
from torch import Tensor
from transformers import PreTrainedModel
from trl import DPOConfig, DPOTrainer
from trl.trainer.utils import use_adapter

from rl.base.records import Report, TrainingResult
from rl.config import DPOConfig as Settings
from rl.config import TrainingConfig
from rl.config.training_job import TrainingJob
from rl.lm import loading
from rl.lm.kept_scores import kept_log_probs
from rl.lm.lengths import LengthCount
from rl.lm.log_probs import StoredAnswers
from rl.lm.own_tokens import split
from rl.training import fitting
from rl.training.imitating import warm_up
from rl.training.kept_passes import kept_passes
from rl.training.preparing import Start, encoded_rows, held_out_rows, prepare
from rl.training.watch import watch


def train(job: TrainingJob, report: Report) -> TrainingResult:
    with prepare(job, report) as start:
        # rows: prompt_ids, chosen_ids and rejected_ids, on disk
        rows, lengths = encoded_rows(start, "dpo")
        # policy: has imitated the chosen answers first, if the job asks for it
        policy = warm_up(start, StoredAnswers(rows, "chosen_ids"))
        trainer = _trainer(start, policy, rows)
        return fit_preferences(start, trainer, rows, lengths)


def preference_arguments(config: TrainingConfig) -> dict[str, Any]:
    """What DPO, KTO and MPO tell TRL alike."""
    return {
        "beta": config.beta,
        "max_length": None,  # the rows fit already
        "disable_dropout": False,  # it would turn off the adapter's too; the base model's is off already
        "precompute_ref_log_probs": config.full,  # else a reference would be loaded
    }


class OwnTokens:
    """A collator of TRL's, for answers in which some tokens are not the model's own (``rl.lm.own_tokens``)."""

    def __init__(self, collator: Callable[[list[dict[str, Any]]], dict[str, Tensor]]) -> None:
        self._collator = collator

    def __call__(self, examples: list[dict[str, Any]]) -> dict[str, Tensor]:
        batch = self._collator(examples)
        for name in [name for name in batch if name.endswith("input_ids")]:
            # (B, T) each: ids, and 1 where a token is learned
            batch[name], own = split(batch[name])
            mask = f"{name.removesuffix('input_ids')}completion_mask"
            if mask in batch:
                batch[mask] = batch[mask] * own
        return batch


class OnTokenIds(fitting.LooksOnly):
    """Mixed into TRL's trainers: for rows that are token ids already, with reference scores that are computed once."""

    REFERENCE: ClassVar[Mapping[str, str]]
    """Column of answers to the column that its reference scores get."""
    ALWAYS_SCORED: ClassVar[bool] = False
    """Whether the reference scores are columns of the rows however few epochs there are."""
    train_dataset: Dataset
    eval_dataset: Dataset | None
    model: Any
    data_collator: Any
    accelerator: Any
    get_train_dataloader: Callable[[], Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.data_collator = OwnTokens(self.data_collator)

    def _prepare_dataset(self, dataset: Dataset, *args: object) -> Dataset:
        return dataset

    def _precompute_ref_logps(self, dataset: Dataset, *args: object) -> Dataset:
        """``use_reference`` does it."""
        return dataset

    def use_reference(self, config: TrainingConfig, report: Report) -> None:
        """Scores every answer under the reference now instead of once per epoch, or where it will be gone: a model that
        is trained itself is the reference only until its first step."""
        if config.epochs <= 1 and not config.full and not self.ALWAYS_SCORED:
            return
        report("stage", {"name": "scoring under the base model"})
        self.model.eval()
        self.train_dataset = self._with_reference(self.train_dataset, self._rows_used(config), config, report)
        if self.eval_dataset:
            looked_at = np.arange(len(self.eval_dataset))
            self.eval_dataset = self._with_reference(self.eval_dataset, looked_at, config, report)
        self.precompute_ref_logps = True

    def _with_reference(self, rows: Dataset, used: NDArray[np.intp], config: TrainingConfig, report: Report) -> Dataset:
        """Not a number in rows that are not used."""
        # what the policy is held near: the adapter that it started from, else the base model
        is_adapter = isinstance(self.model, PeftModel)
        before = "ref" if is_adapter and "ref" in self.model.peft_config else None
        with use_adapter(self.model, before) if is_adapter else nullcontext():
            # C columns of N rows each: scores (C, N), 0 where a row has no such answer, and none of rows that are not used
            answers = StoredAnswers(rows.select(used), *self.REFERENCE)
            scores = np.zeros(len(self.REFERENCE) * len(used))
            scores[answers.places] = kept_log_probs(
                self.model, answers, loading.autocast_dtype(config.precision), report
            )
        of_rows = np.full((len(self.REFERENCE), len(rows)), np.nan)
        of_rows[:, used] = scores.reshape(-1, len(used))
        for name, of_column in zip(self.REFERENCE.values(), of_rows, strict=True):
            rows = rows.add_column(name, of_column.tolist())
        return rows

    def _rows_used(self, config: TrainingConfig) -> NDArray[np.intp]:
        """Numbers of the rows that a short run comes to, in the order in which they lie; of another all."""
        most, count = int(config.max_steps) * config.rows_a_step, len(self.train_dataset)
        if not 0 < most < count:
            return np.arange(count)
        of_process = self.get_train_dataloader().batch_sampler
        self.accelerator._dataloaders.pop()  # noqa: SLF001  it was only asked for its order
        batches_of_all: Iterable[list[int]] = getattr(of_process, "batch_sampler", of_process)
        return np.sort(list(islice(chain.from_iterable(batches_of_all), most)))


def fit_preferences(start: Start, trainer: Any, rows: Dataset, lengths: LengthCount) -> TrainingResult:
    """Trains and publishes, as DPO, KTO and MPO do alike. With several epochs log ref of each answer becomes a column of the
    rows; else each pass computes its own."""
    job = start.job
    with fitting.fast_passes(start, trainer.model):
        trainer.use_reference(job.config, start.report)
        watches = [*watch(start, trainer.model, rows), *kept_passes(job)]
        fitting.fit(trainer, job, start.checkpoint, start.report, watches=watches)
    return fitting.finish(trainer, start, lengths)


class _Trainer(OnTokenIds, DPOTrainer):
    REFERENCE = {"chosen_ids": "ref_chosen_logps", "rejected_ids": "ref_rejected_logps"}


def _trainer(start: Start, model: PreTrainedModel | PeftModel, rows: Dataset) -> _Trainer:
    config = start.job.config
    assert isinstance(config, Settings)  # noqa: S101  the method's own
    of_dpo: dict[str, Any] = {
        **preference_arguments(config),
        "loss_type": list(config.losses),
        "loss_weights": list(config.losses.values()),
        "label_smoothing": config.smoothing,
    }
    looked_at = held_out_rows(start, "dpo")
    return _Trainer(**fitting.parts(start, model, rows, DPOConfig, held_out=looked_at, **of_dpo))
