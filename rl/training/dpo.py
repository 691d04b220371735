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

from __future__ import annotations

import time

from datasets import Dataset
from peft import PeftModel
from transformers import PreTrainedModel
from trl import DPOConfig, DPOTrainer

from rl.base.records import Report, TrainingResult
from rl.config import DPOConfig as Settings
from rl.config.training_job import TrainingJob
from rl.lm.log_probs import StoredAnswers
from rl.training import fitting
from rl.training.preparing import Start, encoded_rows, prepare
from rl.training.warm_up import warm_up
from rl.training.watch import watch


def train(job: TrainingJob, report: Report) -> TrainingResult:
    """Trains, or goes on from the newest checkpoint; ``output_dir/adapter`` or ``output_dir/model`` appears whole.

    Raises Interrupted after a checkpoint when ``report`` does; TrainingFailed, NotEnoughData or BadFile otherwise.
    """
    started = time.monotonic()
    with prepare(job, report) as start:
        # rows: prompt_ids, chosen_ids and rejected_ids, on disk
        rows, lengths = encoded_rows(start, "dpo")
        # policy: has imitated the chosen answers first, if the job asks for it
        policy = warm_up(start, StoredAnswers(rows, "chosen_ids"))
        trainer = _trainer(start, policy, rows)
        # reference: with several epochs log ref of both answers becomes columns of the rows; else each pass computes
        # its own
        with fitting.fast_passes(start, trainer.model):
            trainer.use_reference(job.config, report)
            fitting.fit(trainer, job, start.checkpoint, report, watches=watch(start, trainer.model, rows))
        weights = fitting.publish(trainer, start)
    return fitting.result(trainer, weights, lengths, time.monotonic() - started)


class _Trainer(fitting.OnTokenIds, DPOTrainer):
    REFERENCE = {"chosen_ids": "ref_chosen_logps", "rejected_ids": "ref_rejected_logps"}


def _trainer(start: Start, model: PreTrainedModel | PeftModel, rows: Dataset) -> _Trainer:
    config = start.job.config
    assert isinstance(config, Settings)  # noqa: S101  the method's own
    of_dpo = {
        **fitting.preference_arguments(config),
        "loss_type": list(config.losses),
        "loss_weights": list(config.losses.values()),
        "label_smoothing": config.smoothing,
    }
    return _Trainer(
        model=model,
        args=fitting.arguments(DPOConfig, config, start.scratch, **of_dpo),
        train_dataset=rows,
        processing_class=start.tokenizer,
        peft_config=fitting.peft_config(model, config),
    )
