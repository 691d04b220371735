"""A reward model (Bradley and Terry, 1952; Ouyang et al., 2022): a LoRA adapter and a linear head, by TRL's RewardTrainer.

Rows: ``prompt``, ``chosen``, ``rejected``, each a list of chat messages. Each answer x gets a number s(x).

Minimises -log sigmoid(s(chosen) - s(rejected)) + c (s(chosen) + s(rejected))^2, the mean over pairs; c is
``center_rewards``, a small weight that keeps the numbers around 0 (Eisenstein et al., 2023).

Departs from TRL: rows are tokenised here; dropout is off in the base model but on in the adapter; and the head starts
at 0, so that before training every two answers are equally good. Held-out pairs say how often the order is right, and
whether the model is as sure as it is right.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from datasets import Dataset
from peft import LoraConfig
from transformers import PreTrainedModel
from trl import RewardConfig, RewardTrainer
from trl.trainer.utils import disable_dropout_in_model

from rl.base.records import Report, TrainingResult
from rl.config import RewardModelConfig, TrainingConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter import read_training_rows
from rl.lm.model_path import SCORES
from rl.training import fitting
from rl.training.calibration import expected_calibration_error
from rl.training.preparing import Start, encoded_rows, prepare
from rl.training.reward_scoring import HEAD, RewardModel, load_scoring_base, score_pairs


def train(job: TrainingJob, report: Report) -> TrainingResult:
    """Trains, or goes on from the newest checkpoint; ``output_dir/adapter`` or ``output_dir/model`` appears whole, with
    the head.

    Raises Interrupted after a checkpoint when ``report`` does; TrainingFailed, NotEnoughData or BadFile otherwise.
    """
    started = time.monotonic()
    with prepare(job, report) as start:
        rows, lengths = encoded_rows(start, "reward_model")
        trainer = _trainer(start, start.model(load_scoring_base), _whole(rows, start))
        with fitting.frozen_trunk(start, trainer.model):
            fitting.fit(trainer, job, start.checkpoint, report)
        # held-out pairs: scored by the model that is in memory, as the saved one would
        model = RewardModel(trainer.model, start.tokenizer, start.most_tokens, job.config.precision)
        held_out_metrics = _measure_held_out(model, job.heldout_rows, report)
        weights = fitting.publish(trainer, start)
    result = fitting.result(trainer, weights, lengths, time.monotonic() - started)
    return replace(result, metrics={**result.metrics, **held_out_metrics})


class _Trainer(RewardTrainer):
    """TRL's trainer for rows that are token ids already."""

    def _prepare_dataset(self, dataset: Dataset, *args: object) -> Dataset:
        return dataset


def _whole(rows: Dataset, start: Start) -> Dataset:
    """TRL scores conversations: the prompt with its answer."""

    def join_conversation(row: dict[str, Any]) -> dict[str, Any]:
        # TRL stacks B chosen and then B rejected ones into a pass (2B, T), and takes s at the last token of each
        return {name: row["prompt_ids"] + row[name] for name in ("chosen_ids", "rejected_ids")}

    return rows.map(join_conversation, remove_columns=["prompt_ids"], cache_file_name=str(start.path("whole.arrow")))


def _trainer(start: Start, model: PreTrainedModel, rows: Dataset) -> _Trainer:
    config = start.job.config
    assert isinstance(config, RewardModelConfig)  # noqa: S101  the method's own
    # TRL's own switch would turn off the adapter's dropout too.
    disable_dropout_in_model(model)
    of_reward = {
        "max_length": None,  # the rows fit already
        "disable_dropout": False,
        "center_rewards_coefficient": config.center_rewards or None,
    }
    return _Trainer(
        model=model,
        args=fitting.arguments(RewardConfig, config, start.scratch, **of_reward),
        train_dataset=rows,
        processing_class=start.tokenizer,
        peft_config=_lora(model, config),
    )


def _lora(model: PreTrainedModel, config: TrainingConfig) -> LoraConfig | None:
    """Without the task PEFT would put LoRA on the head and not save what it started from."""
    if config.full:
        return None
    lora = fitting.lora(model, config)
    # the head is trained and saved whole, beside the adapter
    lora.task_type, lora.modules_to_save = SCORES, [HEAD]
    return lora


def _measure_held_out(model: RewardModel, heldout_rows: Path | None, report: Report) -> dict[str, float]:
    pairs = list(read_training_rows(heldout_rows, "reward_model")) if heldout_rows else []
    report("stage", {"name": "scoring held-out pairs"})
    margins = [score.margin for score in score_pairs(model, pairs, report) if score is not None]
    if not margins:
        report("log", {"text": "no pairs are held out, so nothing is known about accuracy and calibration"})
        return {"heldout_pairs": 0.0}
    # a margin is s(chosen) - s(rejected); a tie is half right
    accuracy = sum(0.5 if margin == 0 else float(margin > 0) for margin in margins) / len(margins)
    error = expected_calibration_error(margins)
    report(
        "log",
        {
            "text": f"{len(margins)} held-out pairs: {accuracy:.1%} in the right order, "
            f"expected calibration error {error:.3f}"
        },
    )
    return {
        "heldout_pairs": float(len(margins)),
        "heldout_accuracy": accuracy,
        "heldout_calibration_error": error,
        "heldout_margin": math.fsum(margins) / len(margins),
    }
