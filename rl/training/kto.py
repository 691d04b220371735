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

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from operator import itemgetter

from datasets import Dataset
from peft import PeftModel
from transformers import PreTrainedModel
from trl import KTOConfig, KTOTrainer

from rl.base.errors import NotEnoughData
from rl.base.records import Report, TrainingResult
from rl.config.training_job import TrainingJob
from rl.training import fitting
from rl.training.passes import at_least_two_rows_a_pass, label_weights, with_other_answers
from rl.training.preparing import Start, encoded_rows, prepare
from rl.training.warm_up import warm_up
from rl.training.watch import watch


def train(job: TrainingJob, report: Report) -> TrainingResult:
    """Trains, or goes on from the newest checkpoint; ``output_dir/adapter`` or ``output_dir/model`` appears whole.

    Raises Interrupted after a checkpoint when ``report`` does; TrainingFailed, NotEnoughData or BadFile otherwise.
    """
    started = time.monotonic()
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
        # reference: with several epochs log ref of each answer, and of z's, becomes a column; else each pass computes it
        with fitting.fast_passes(start, trainer.model):
            trainer.use_reference(job.config, report)
            fitting.fit(trainer, job, start.checkpoint, report, watches=watch(start, trainer.model, rows))
        weights = fitting.publish(trainer, start)
    return fitting.result(trainer, weights, lengths, time.monotonic() - started)


class _Trainer(fitting.OnTokenIds, KTOTrainer):
    REFERENCE = {"completion_ids": "ref_logps", "KL_completion_ids": "ref_KL_logps"}


def _weights(rows: Dataset, report: Report) -> dict[str, float]:
    """The rarer label's weight makes up for its number, as the paper advises for imbalanced data."""
    count = Counter(rows["label"])
    good, bad = count[True], count[False]
    if not good or not bad:
        only = "good" if good else "bad"
        raise NotEnoughData(f"all {len(rows)} rows that fit are {only}, and KTO learns from the difference")
    weights = dict(zip(("desirable_weight", "undesirable_weight"), label_weights(good, bad), strict=True))
    report(
        "log",
        {
            "text": f"{good} good and {bad} bad answers: a good one counts {weights['desirable_weight']:.2f} times, "
            f"a bad one {weights['undesirable_weight']:.2f} times"
        },
    )
    return weights


def _trainer(start: Start, model: PreTrainedModel | PeftModel, rows: Dataset, weights: dict[str, float]) -> _Trainer:
    config = start.job.config
    of_kto = {**fitting.preference_arguments(config), **weights}
    return _Trainer(
        model=model,
        args=fitting.arguments(KTOConfig, config, start.scratch, **of_kto),
        train_dataset=rows,
        processing_class=start.tokenizer,
        peft_config=fitting.peft_config(model, config),
    )
