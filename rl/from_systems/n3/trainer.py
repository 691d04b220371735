"""N3's RLHFTrainer over Ratchet's methods: a reward model first, then PPO against it. No agent, versions or gate."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from rl.base.errors import NotEnoughData, UsageError
from rl.base.export_records import ExportJob
from rl.base.files import scratch_directory, staged_directory
from rl.base.leaves import import_name, leaf
from rl.base.records import Report, silent
from rl.from_systems.n3.feedback_rows import Feedback, examples, prepare_feedback_dataset, write_prompts
from rl.from_systems.n3.result_file import FILE, Histories, TrainingResult
from rl.from_systems.n3.reward_model import RewardModel, require_reward_model, train_reward_model
from rl.from_systems.n3.training_config import TrainingConfig
from rl.from_systems.site import resolve_base_model
from rl.hardware import detect_hardware, estimate
from rl.hardware.parts import Workload

CHARACTERS_PER_TOKEN = 4


class RLHFTrainer:
    def __init__(self, config: TrainingConfig) -> None:
        self.config = config
        self.tokenizer: Any = None

    def prepare_models(self) -> None:
        """Loads the tokenizer. Not needed before ``train``, which loads what it needs."""
        self.tokenizer = leaf("rl.lm.loading").load_tokenizer(resolve_base_model(self.config.base_model))

    def estimate_training(self, feedbacks: Sequence[Feedback]) -> dict[str, Any]:
        """What a training would do; ``estimated_time_minutes`` is by this machine's kind, None where the size of the base
        model is not known here. Raises UsageError, NotEnoughData."""
        rows, config = _require(feedbacks), self.config.to_core()
        scores = [row.score for row in rows]
        characters = fmean(len(row.prompt) for row in rows)
        seconds = self._seconds(len(rows), characters / CHARACTERS_PER_TOKEN)
        return {
            "feedback_count": len(rows),
            "score_mean": fmean(scores),
            "score_std": pstdev(scores),
            "estimated_steps": config.steps(len(rows)),
            "estimated_time_minutes": None if seconds is None else round(seconds / 60, 2),
            "model_config": {
                "base_model": self.config.base_model,
                "use_lora": self.config.use_lora,
                "lora_r": self.config.lora_r,
                "learning_rate": self.config.learning_rate,
            },
        }

    def train_reward_model_from_feedback(self, feedbacks: Sequence[Feedback], report: Report = silent) -> RewardModel:
        train, held_out = prepare_feedback_dataset(_require(feedbacks), train_split=self.config.dataset.train_split)
        return train_reward_model(train, held_out, self.config.reward_model_config, report=report)

    def train(
        self,
        feedbacks: Sequence[Feedback],
        output_dir: Path | str,
        reward_model_path: Path | str | None = None,
        report: Report = silent,
    ) -> TrainingResult:
        """Fills ``output_dir`` with ``policy/`` (a whole model with its tokenizer), ``reward_model/`` where one is made, and
        ``training_results.json``. Raises UsageError, NotEnoughData, and what a training raises."""
        folder, rows = Path(output_dir), _require(feedbacks)
        folder.mkdir(parents=True, exist_ok=True)
        reward_model, made = self._reward_model(rows, folder, reward_model_path, report)
        with scratch_directory(folder / "training") as work:
            prompts = write_prompts(rows, work / "prompts.jsonl")
            trained = self._trainer(work, reward_model).train(prompts, report=report)
            self._save_policy(trained.weights_dir, folder / "policy")
        result = _result(trained, folder, made, len(rows))
        result.save(folder / FILE)
        return result

    def _reward_model(
        self, rows: Sequence[Feedback], folder: Path, path: Path | str | None, report: Report
    ) -> tuple[RewardModel, Path | None]:
        """And where it was saved, if it was made."""
        if path is not None:
            return require_reward_model(path), None
        if not self.config.train_reward_model_first:
            raise UsageError("name a reward model as reward_model_path, or set train_reward_model_first")
        model = self.train_reward_model_from_feedback(rows, report)
        model.save_pretrained(folder / "reward_model")
        return model, folder / "reward_model"

    def _trainer(self, work: Path, reward_model: RewardModel) -> Any:
        trainer = import_name("rl.runs.pipeline.RLTrainer")
        return trainer(
            "ppo", resolve_base_model(self.config.base_model), work, self.config.to_core(), scorer=reward_model.core
        )

    def _save_policy(self, weights: Path, target: Path) -> None:
        with staged_directory(target) as directory:
            if self.config.use_lora:
                job = ExportJob(resolve_base_model(self.config.base_model), weights, target, target.name)
                leaf("rl.export.hf.merge").write_merged(job, directory, silent)
            else:
                shutil.copytree(weights, directory, dirs_exist_ok=True)
                leaf("rl.lm.loading").load_tokenizer(resolve_base_model(self.config.base_model)).save_pretrained(
                    directory
                )

    def _seconds(self, rows: int, prompt_tokens: float) -> float | None:
        folder = Path(resolve_base_model(self.config.base_model))
        shape = import_name("rl.runs.model_shape.model_shape")(folder)
        if shape is None:
            return None
        answer = self.config.max_new_tokens
        work = Workload(rows=rows, tokens=prompt_tokens + answer, answer_tokens=answer)
        return estimate(work, shape, self.config.to_core(), detect_hardware(folder), "ppo").seconds


def _require(feedbacks: Sequence[Feedback]) -> list[Any]:
    if not feedbacks:
        raise NotEnoughData("there is no feedback to train on")
    return examples(feedbacks)


def _result(trained: Any, folder: Path, reward_model: Path | None, count: int) -> TrainingResult:
    history = Histories()
    for step in trained.history:
        history.add(step)
    return TrainingResult(
        model_path=str(folder / "policy"),
        reward_model_path=str(reward_model) if reward_model else None,
        feedback_count=count,
        final_reward_mean=history.mean,
        final_reward_std=history.std,
        training_steps=trained.steps,
        reward_history=history.reward,
        kl_history=history.kl,
        loss_history=history.loss,
    )
