"""N3's reward model over Ratchet's: what score people would give an answer, on a scale of -1 to 1."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rl.base.errors import NotEnoughData, UsageError
from rl.base.files import staged_directory
from rl.base.leaves import import_name, leaf
from rl.base.records import Report, silent
from rl.from_systems.n3.feedback_rows import FeedbackExample, write_scores
from rl.from_systems.n3.training_config import RewardModelConfig
from rl.from_systems.site import resolve_base_model, set_up_site

SCORING = "rl.training.reward_scoring"


class RewardModel:
    """``folder``: of an adapter or a whole model that scores. It is loaded when it is asked first."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.history: dict[str, list[float]] = {}
        """``train_loss``, one number a step; ``train_mae``, ``val_mae`` and ``val_loss`` (the mean squared error), on -1 to
        1, as they are at the end. Empty for a model that was not trained here just now."""
        self._kept: Any = None
        self._core: Any = None

    @classmethod
    def load_pretrained(cls, path: Path | str, device: str = "") -> RewardModel:
        """``device`` has no effect: the GPU where there is one. Raises UsageError for a folder without a reward model."""
        model = cls(path)
        model.core  # noqa: B018  loads it
        return model

    def save_pretrained(self, path: Path | str) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with staged_directory(target) as directory:
            shutil.copytree(self.folder, directory, dirs_exist_ok=True)

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        """``input_ids``, ``attention_mask``: [batch, tokens]; returns [batch], on -1 to 1."""
        return 2 * self.core.logits(input_ids, attention_mask).sigmoid() - 1

    __call__ = forward

    def score(self, prompt: str, response: str) -> float | None:
        """-1 to 1; None for a prompt that is too long."""
        example = FeedbackExample(prompt, response, 0.0)
        value = self.core.score(example.messages, response)
        return None if value is None else 2 * value - 1

    @property
    def core(self) -> Any:
        """Ratchet's: a Scorer."""
        if self._core is None:
            set_up_site()
            self._core = leaf(SCORING).load(self.folder)
        return self._core


def train_reward_model(
    train_dataset: Sequence[FeedbackExample],
    val_dataset: Sequence[FeedbackExample],
    config: RewardModelConfig,
    tokenizer: Any = None,
    report: Report = silent,
) -> RewardModel:
    """The data sets are those of ``prepare_feedback_dataset``; ``tokenizer`` has no effect, it is the base model's. Raises
    UsageError, NotEnoughData, and what the training raises."""
    if not train_dataset:
        raise NotEnoughData("there are no scored answers to train a reward model on")
    kept = tempfile.TemporaryDirectory(prefix="reward-model-")
    work = Path(kept.name)
    base = resolve_base_model(config.base_model)
    trainer = import_name("rl.runs.pipeline.RLTrainer")("reward_model", base, work, config.to_core())
    result = trainer.train(write_scores(train_dataset, work / "train.jsonl"), report=report)
    leaf("rl.lm.loading").load_tokenizer(base).save_pretrained(result.weights_dir)
    model = RewardModel(result.weights_dir)
    model._kept = kept
    model.history = {"train_loss": result.loss_history, **_errors(model, train_dataset, val_dataset)}
    return model


def _errors(
    model: RewardModel, train: Sequence[FeedbackExample], held_out: Sequence[FeedbackExample]
) -> dict[str, list[float]]:
    of_train, of_held_out = _differences(model, train), _differences(model, held_out)
    means = {
        "train_mae": [abs(value) for value in of_train],
        "val_mae": [abs(value) for value in of_held_out],
        "val_loss": [value**2 for value in of_held_out],
    }
    return {name: [fmean(values)] if values else [] for name, values in means.items()}


def _differences(model: RewardModel, rows: Sequence[FeedbackExample]) -> list[float]:
    scores = ((model.score(row.prompt, row.response), row.score) for row in rows)
    return [given - (2 * score - 1) for given, score in scores if given is not None]


def require_reward_model(path: Path | str) -> RewardModel:
    """Raises UsageError where there is none."""
    if not Path(path).is_dir():
        raise UsageError(f"there is no reward model at {path}")
    return RewardModel.load_pretrained(path)
