"""A reward model (Bradley and Terry, 1952; Ouyang et al., 2022): a LoRA adapter and a linear head, by TRL's RewardTrainer.

Rows: ``prompt``, a list of chat messages, with ``chosen`` and ``rejected``, each one too, or with ``completion`` and
``score``, 0 to 1, for an answer that stands alone. Each answer x gets a number s(x).

Minimises the mean over rows of

- a pair: -log sigmoid(s(chosen) - s(rejected)) + c (s(chosen) + s(rejected))^2, where c is ``center_rewards``, a small
  weight that keeps the numbers around 0 (Eisenstein et al., 2023);
- an answer with the score y: -y log sigmoid(s(x)) - (1 - y) log(1 - sigmoid(s(x))), the cross entropy with a soft label,
  least where sigmoid(s(x)) = y. So sigmoid(s(x)) is the score to expect, as which it rewards answers.

Departs from TRL: it knows pairs only; rows are tokenised here; dropout is off in the base model but on in the adapter;
and the head starts at 0, so that before training every two answers are equally good. Held-out rows say how often the
order is right, whether the model is as sure as it is right, and how far its scores are from those given.

Shapes: P pairs and S single scored answers, in any mixture; N = 2P + S sequences of one forward pass (all chosen ones, all
rejected ones, the single ones), T tokens of the longest.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from datasets import Dataset, Features
from peft import LoraConfig
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid
from transformers import PreTrainedModel
from trl import RewardConfig, RewardTrainer
from trl.trainer.utils import disable_dropout_in_model

from rl.base.records import Report, TrainingResult
from rl.config import RewardModelConfig, TrainingConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter import read_training_rows
from rl.data_formatter.scored import of_scores
from rl.lm.model_path import SCORES
from rl.lm.own_tokens import plain
from rl.training import fitting
from rl.training.calibration import calibration
from rl.training.preparing import Start, encoded_rows, prepare
from rl.training.reward_scoring import HEAD, RewardModel, load_scoring_base, pad_right, score_pairs


def train(job: TrainingJob, report: Report) -> TrainingResult:
    with prepare(job, report) as start:
        rows, lengths = encoded_rows(start, "reward_model")
        trainer = _trainer(start, start.model(load_scoring_base), _whole(rows, start))
        with fitting.fast_passes(start, trainer.model):
            fitting.fit(trainer, job, start.checkpoint, report)
        # held-out rows: scored by the model that is in memory, as the saved one would
        model = RewardModel(trainer.model, start.tokenizer, start.most_tokens, job.config.precision)
        held_out_metrics = _measure_held_out(model, job.heldout_rows, report)
        result = fitting.finish(trainer, start, lengths)
    return replace(result, metrics={**result.metrics, **held_out_metrics})


class _Trainer(RewardTrainer):
    """TRL's trainer for rows that are token ids already: pairs, and single answers with a score."""

    def _prepare_dataset(self, dataset: Dataset, *args: object) -> Dataset:
        return dataset

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["chosen_ids", "rejected_ids", "completion_ids", "score"]

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Any:
        scores = inputs.pop("scores")
        outputs = model(**inputs, use_cache=False)
        of = sides(outputs.logits.squeeze(-1).float(), scores)
        loss = reward_loss(of, scores, self.args.center_rewards_coefficient or 0.0)
        with torch.no_grad():
            # one gathering a pass, whatever its rows are: (processes, 6) to (6,)
            added = self.accelerator.gather(sums(of, scores)[None]).sum(dim=0)
        for name, value in metrics(added).items():
            self._metrics["train"][name].append(value)
        return (loss, outputs) if return_outputs else loss


def _whole(rows: Dataset, start: Start) -> Dataset:
    """Conversations are scored whole: the prompt with its answer, results of tools included. A row lacks the answers of the
    other kind."""
    answers = [name for name in rows.column_names if name.endswith("_ids") and name != "prompt_ids"]

    def join_conversation(row: dict[str, Any]) -> dict[str, Any]:
        # s is read at the last token of each
        return {name: None if row[name] is None else row["prompt_ids"] + plain(row[name]) for name in answers}

    columns = Features({name: kind for name, kind in rows.features.items() if name != "prompt_ids"})
    file = str(start.path("whole.arrow"))
    return rows.map(join_conversation, remove_columns=["prompt_ids"], features=columns, cache_file_name=file)


def _trainer(start: Start, model: PreTrainedModel, rows: Dataset) -> _Trainer:
    config = start.job.config
    assert isinstance(config, RewardModelConfig)  # noqa: S101  the method's own
    # TRL's own switch would turn off the adapter's dropout too.
    disable_dropout_in_model(model)
    of_reward: dict[str, Any] = {
        "max_length": None,  # the rows fit already
        "disable_dropout": False,
        "center_rewards_coefficient": config.center_rewards or None,
    }
    parts = fitting.parts(start, model, rows, RewardConfig, **of_reward)
    return _Trainer(
        **parts | {"data_collator": Batches(start.tokenizer.pad_token_id), "peft_config": _lora(model, config)}
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
    contrasts = of_scores(read_training_rows(heldout_rows, "reward_model")) if heldout_rows else []
    report("stage", {"name": "scoring held-out answers"})
    numbers = score_pairs(model, contrasts, report)
    scored = [(contrast, both) for contrast, both in zip(contrasts, numbers, strict=True) if both is not None]
    if not scored:
        text = "no pairs and no answers whose scores differ are held out"
        report("log", {"text": f"{text}, so nothing is known about accuracy and calibration"})
        return {"heldout_pairs": 0.0}
    margins = [both.margin for _, both in scored]
    # a margin is s(chosen) - s(rejected); a tie is half right
    figures = {
        "pairs": float(len(margins)),
        "accuracy": sum(both.credit for _, both in scored) / len(margins),
        "margin": math.fsum(margins) / len(margins),
        **calibration([contrast for contrast, _ in scored], [both for _, both in scored]),
    }
    report("log", {"text": _describe(figures)})
    return {f"heldout_{name}": value for name, value in figures.items()}


def _describe(figures: Mapping[str, float]) -> str:
    text = f"{figures['pairs']:.0f} held-out pairs: {figures['accuracy']:.1%} in the right order"
    if "calibration_error" in figures:
        text += f", expected calibration error {figures['calibration_error']:.3f}"
    if "brier_score" in figures:
        text += (
            f"; Brier score {figures['brier_score']:.3f} of {figures['scored_answers']:.0f} scored answers "
            f"({figures['brier_score_of_mean']:.3f} by always giving their mean)"
        )
    return text


class PassScores(NamedTuple):
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
        ids, mask = pad_right([*sequences, *(row["completion_ids"] for row in single)], self._pad_token_id)
        scores = torch.tensor([row["score"] for row in single], dtype=torch.float32)
        return {"input_ids": ids, "attention_mask": mask, "scores": scores}


def sides(numbers: Tensor, scores: Tensor) -> PassScores:
    """``numbers``: (N,); ``scores``: (S,)."""
    pairs = (len(numbers) - len(scores)) // 2
    return PassScores(*numbers.split([pairs, pairs, len(scores)]))


def reward_loss(of: PassScores, scores: Tensor, center: float) -> Tensor:
    """The mean over P pairs and S answers. ``scores``: (S,), 0 to 1."""
    of_pairs = center * (of.chosen + of.rejected) ** 2 - logsigmoid(of.chosen - of.rejected)
    of_single = binary_cross_entropy_with_logits(of.single, scores, reduction="none")
    return torch.cat([of_pairs, of_single]).mean()


def sums(of: PassScores, scores: Tensor) -> Tensor:
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
