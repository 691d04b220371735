"""N3's RLHFTrainer over Ratchet's methods: a reward model first, then PPO against it. No agent, versions or gate. And its
hyper-parameters, under N3's names and as Ratchet's; they may be changed after they were made, as its guide does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Final

from rl.base.errors import NotEnoughData, UsageError
from rl.base.files import scratch_directory, staged_directory
from rl.base.leaves import import_name, leaf
from rl.base.records import Message, Report, silent
from rl.config import TrainingConfig as CoreConfig
from rl.config import config_class
from rl.from_systems.n3 import result_file
from rl.from_systems.site import core_trainer, resolve_base_model, set_up_site, write_weights
from rl.hardware import detect_hardware, estimate
from rl.hardware.parts import Workload

_OTHER_NAMES: Final = {"gradient_accumulation_steps": "gradient_accumulation", "num_epochs": "epochs"}
"""N3's name to ours, where they differ."""


@dataclass
class DatasetConfig:
    max_length: int = 512
    """Tokens of prompt and answer, for the reward model."""
    max_prompt_length: int = 256
    """Tokens; longer prompts are left out, not cut."""
    train_split: float = 0.8
    normalize_scores: bool = True
    """Without effect: a score is learned as it is, 0 to 1."""


@dataclass
class _LoraConfig:
    base_model: str = "gpt2"
    use_lora: bool = True
    lora_r: int = 8
    lora_alpha: int = 32
    lora_dropout: float = 0.1
    learning_rate: float = 1e-5
    batch_size: int = 8

    def _to_core(self, method: str, **values: Any) -> CoreConfig:
        """What the method has too, and ``values`` in place of some. Raises UsageError for an impossible one."""
        core = config_class(method)()
        own = {_OTHER_NAMES.get(entry.name, entry.name): getattr(self, entry.name) for entry in fields(self)}
        known = {entry.name: own[entry.name] for entry in fields(core) if entry.name in own}
        return core.with_overrides({**known, "full": not self.use_lora, **values})


@dataclass
class RewardModelConfig(_LoraConfig):
    num_epochs: int = 3
    warmup_steps: int = 100
    """At most; and at most a tenth of the steps."""
    max_grad_norm: float = 1.0
    max_length: int = 512
    device: str = ""
    """Without effect: the GPU where there is one."""

    def to_core(self) -> CoreConfig:
        """Raises UsageError for an impossible value."""
        return self._to_core("reward_model", gradient_accumulation=1)


@dataclass
class TrainingConfig(_LoraConfig):
    mini_batch_size: int = 4
    """At most a batch."""
    gradient_accumulation_steps: int = 1
    ppo_epochs: int = 4
    max_grad_norm: float = 1.0
    init_kl_coef: float = 0.2
    target_kl: float = 6.0
    gamma: float = 1.0
    lam: float = 0.95
    cliprange: float = 0.2
    cliprange_value: float = 0.2
    vf_coef: float = 0.1
    max_new_tokens: int = 128
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 0.95
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    max_steps: int = 1000
    """Batches at most; one pass over the prompts ends the training before."""
    train_reward_model_first: bool = True
    reward_model_config: RewardModelConfig = None  # type: ignore[assignment]  # made from the rest where left out
    device: str = ""
    """Without effect, as ``mixed_precision``: the machine decides both."""
    mixed_precision: str = ""

    def __post_init__(self) -> None:
        if self.reward_model_config is None:
            same = ("base_model", "use_lora", "lora_r", "lora_alpha", "lora_dropout", "device")
            self.reward_model_config = RewardModelConfig(
                **{name: getattr(self, name) for name in same}, max_length=self.dataset.max_length
            )

    def to_core(self) -> CoreConfig:
        """PPO over each prompt once. Raises UsageError for an impossible value."""
        length = self.dataset.max_prompt_length + self.max_new_tokens
        small = min(self.mini_batch_size, self.batch_size)
        return self._to_core("ppo", epochs=1.0, mini_batch_size=small, max_length=length)


CHARACTERS_PER_TOKEN = 4


class RLHFTrainer:
    def __init__(self, config: TrainingConfig) -> None:
        self.config = config
        self.tokenizer: Any = None

    def prepare_models(self) -> None:
        """Loads the tokenizer. Not needed before ``train``, which loads what it needs."""
        self.tokenizer = leaf("rl.lm.loading").load_tokenizer(resolve_base_model(self.config.base_model))

    def estimate_training(self, feedbacks: Sequence[result_file.Feedback]) -> dict[str, Any]:
        """What a training would do; ``estimated_time_minutes`` is by this machine's kind, None where the size of the base
        model is not known here. Raises UsageError, NotEnoughData."""
        rows, config = _require(feedbacks), self.config.to_core()
        scores = [row.score for row in rows]
        folder, answer = Path(resolve_base_model(self.config.base_model)), self.config.max_new_tokens
        shape, seconds = import_name("rl.runs.settling.model_shape")(folder), None
        if shape is not None:
            prompt = fmean(len(row.prompt) for row in rows) / CHARACTERS_PER_TOKEN
            work = Workload(rows=len(rows), tokens=prompt + answer, answer_tokens=answer)
            seconds = estimate(work, shape, config, detect_hardware(folder), "ppo").seconds
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

    def train_reward_model_from_feedback(
        self, feedbacks: Sequence[result_file.Feedback], report: Report = silent
    ) -> RewardModel:
        train, held_out = result_file.prepare_feedback_dataset(
            _require(feedbacks), train_split=self.config.dataset.train_split
        )
        return train_reward_model(train, held_out, self.config.reward_model_config, report=report)

    def train(
        self,
        feedbacks: Sequence[result_file.Feedback],
        output_dir: Path | str,
        reward_model_path: Path | str | None = None,
        report: Report = silent,
    ) -> result_file.TrainingResult:
        """Fills ``output_dir`` with ``policy/`` (a whole model with its tokenizer), ``reward_model/`` where one is made, and
        ``training_results.json``. Raises UsageError, NotEnoughData, and what a training raises."""
        folder, rows = Path(output_dir), _require(feedbacks)
        folder.mkdir(parents=True, exist_ok=True)
        reward_model, made = self._reward_model(rows, folder, reward_model_path, report)
        with scratch_directory(folder / "training") as work:
            prompts = result_file.write_rows(result_file.prepare_ppo_dataset(rows), work / "prompts.jsonl")
            trainer = core_trainer("ppo", self.config.base_model, work, self.config.to_core(), reward_model.core)
            trained = trainer.train(prompts, report=report)
            base = resolve_base_model(self.config.base_model)
            with staged_directory(folder / "policy") as directory:
                write_weights(base, trained.weights_dir, directory, "policy", merge=self.config.use_lora)
        history = result_file.Histories()
        for step in trained.history:
            history.add(step)
        reward_path = str(made) if made else None
        about = {"model_path": str(folder / "policy"), "reward_model_path": reward_path, "feedback_count": len(rows)}
        result = history.result(training_steps=trained.steps, **about)
        result.save(folder / result_file.FILE)
        return result

    def _reward_model(
        self, rows: Sequence[result_file.Feedback], folder: Path, path: Path | str | None, report: Report
    ) -> tuple[RewardModel, Path | None]:
        """And where it was saved, if it was made."""
        if path is not None:
            if not Path(path).is_dir():
                raise UsageError(f"there is no reward model at {path}")
            return RewardModel.load_pretrained(path), None
        if not self.config.train_reward_model_first:
            raise UsageError("name a reward model as reward_model_path, or set train_reward_model_first")
        model = self.train_reward_model_from_feedback(rows, report)
        model.save_pretrained(folder / "reward_model")
        return model, folder / "reward_model"


def _require(feedbacks: Sequence[result_file.Feedback]) -> list[Any]:
    if not feedbacks:
        raise NotEnoughData("there is no feedback to train on")
    return result_file.examples(feedbacks)


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
        example = result_file.FeedbackExample(prompt, response, 0.0)
        value = self.core.score(example.messages, response)
        return None if value is None else 2 * value - 1

    @property
    def core(self) -> Any:
        """Ratchet's: a Scorer."""
        if self._core is None:
            set_up_site()
            self._core = leaf("rl.training.reward_scoring").load(self.folder)
        return self._core


def train_reward_model(
    train_dataset: Sequence[result_file.FeedbackExample],
    val_dataset: Sequence[result_file.FeedbackExample],
    config: RewardModelConfig,
    tokenizer: Any = None,
    report: Report = silent,
) -> RewardModel:
    """The data sets are those of ``prepare_feedback_dataset``; ``tokenizer`` has no effect, it is the base model's. Raises
    UsageError, NotEnoughData, and what the training raises."""
    if not train_dataset:
        raise NotEnoughData("there are no scored answers to train a reward model on")
    kept = tempfile.TemporaryDirectory(prefix="reward-model-")
    work, base = Path(kept.name), resolve_base_model(config.base_model)
    trainer = core_trainer("reward_model", config.base_model, work, config.to_core())
    rows = (
        {"prompt": row.messages, "completion": [Message(role="assistant", content=row.response)], "score": row.score}
        for row in train_dataset
    )
    result = trainer.train(result_file.write_rows(rows, work / "train.jsonl"), report=report)
    leaf("rl.lm.loading").load_tokenizer(base).save_pretrained(result.weights_dir)
    model = RewardModel(result.weights_dir)
    model._kept = kept  # noqa: SLF001  of this file
    of_train, of_held_out = _differences(model, train_dataset), _differences(model, val_dataset)
    errors = {"train_mae": list(map(abs, of_train)), "val_mae": list(map(abs, of_held_out))}
    errors["val_loss"] = [value**2 for value in of_held_out]
    means = {name: [fmean(values)] if values else [] for name, values in errors.items()}
    model.history = {"train_loss": result.loss_history, **means}
    return model


def _differences(model: RewardModel, rows: Sequence[result_file.FeedbackExample]) -> list[float]:
    scores = ((model.score(row.prompt, row.response), row.score) for row in rows)
    return [given - (2 * score - 1) for given, score in scores if given is not None]
