"""``CommandCenterDPOTrainer`` over Ratchet's: rows in, an adapter out. No agent, versions or gate."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from rl.base.errors import RatchetError, UsageError
from rl.base.files import replacing
from rl.base.leaves import import_name, leaf
from rl.config import preset
from rl.data_formatter.runs import as_answer_messages
from rl.from_systems.site import resolve_base_model


@dataclass(frozen=True, slots=True)
class TrainingResult:
    success: bool
    checkpoint_path: str = ""
    final_loss: float = 0.0
    train_samples: int = 0
    eval_samples: int = 0
    epochs_completed: float = 0.0
    error_message: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)


class CommandCenterDPOTrainer:
    """``config``: hyper-parameters of DPO by our names, over the preset ``config_name``. ``base_model``: a hub id or a
    folder; by default DEFAULT_BASE_MODEL. Raises UsageError."""

    def __init__(
        self, config: Mapping[str, Any] | None = None, config_name: str = "default", base_model: str = ""
    ) -> None:
        start = preset(config_name, "dpo")
        self.config = start.with_overrides(dict(config or {}))
        self.base_model = base_model or settings.DEFAULT_BASE_MODEL
        self.model: Any = None
        self.tokenizer: Any = None
        self.checkpoint_path: Path | None = None

    def load_base_model(self) -> None:
        """Not needed before ``train``, which loads its own copy in place of this one."""
        loading, base = leaf("rl.lm.loading"), resolve_base_model(self.base_model)
        self.tokenizer, self.model = loading.load_tokenizer(base), loading.load_base(base)

    def train(
        self,
        train_dataset: Iterable[Mapping[str, Any]],
        eval_dataset: Iterable[Mapping[str, Any]] | None = None,
        output_dir: Path | str | None = None,
        resume_from_checkpoint: Path | str | None = None,
    ) -> TrainingResult:
        """Rows have ``prompt``, ``chosen`` and ``rejected``, texts or lists of messages. ``output_dir`` gets the checkpoints
        and ``final``. To resume, give a checkpoint below it. ``eval_dataset`` is counted only: a loss on a few rows does not
        say whether a model is better. What fails is told in the result."""
        output = Path(output_dir or settings.DATA_DIR / "command_center")
        rows, held_out = list(train_dataset), list(eval_dataset or ())
        self.model = None
        try:
            return self._train(rows, len(held_out), output, resume_from_checkpoint)
        except RatchetError as error:
            return TrainingResult(False, train_samples=len(rows), eval_samples=len(held_out), error_message=str(error))

    def save_checkpoint(self, path: Path | str) -> str:
        """Copies the adapter there. Raises UsageError before a training."""
        if self.checkpoint_path is None:
            raise UsageError("nothing is trained or loaded yet: call train(...) or load_checkpoint(path) first")
        shutil.copytree(self.checkpoint_path, path, dirs_exist_ok=True)
        return str(path)

    def load_checkpoint(self, path: Path | str) -> None:
        """Base model and adapter into ``model``. Raises UsageError for a folder without an adapter."""
        folder = Path(path)
        if not (folder / "adapter_config.json").is_file():
            raise UsageError(f"{folder} has no adapter_config.json: give an adapter's folder, such as output_dir/final")
        base, loading = resolve_base_model(self.base_model), leaf("rl.lm.loading")
        self.tokenizer = loading.load_tokenizer(base)
        self.model = import_name("peft.PeftModel").from_pretrained(loading.load_base(base), folder)
        self.checkpoint_path = folder

    def _train(
        self, rows: list[Mapping[str, Any]], held_out: int, output: Path, resume: Path | str | None
    ) -> TrainingResult:
        if resume is not None and not Path(resume).resolve().is_relative_to(output.resolve()):
            raise UsageError(f"{resume} is not a checkpoint below {output}: give the output_dir that it belongs to")
        file = output / "train.jsonl"
        output.mkdir(parents=True, exist_ok=True)
        _write_rows(rows, file)
        trainer = import_name("rl.runs.pipeline.RLTrainer")(
            "dpo", resolve_base_model(self.base_model), output, self.config
        )
        result = trainer.train(file, resume=resume is not None)
        self.checkpoint_path = output / "final"
        shutil.copytree(result.weights_dir, self.checkpoint_path, dirs_exist_ok=True)
        batch = self.config.batch_size * self.config.gradient_accumulation
        epochs = min(float(self.config.epochs), result.steps * batch / max(1, len(rows)))
        return TrainingResult(
            True, str(self.checkpoint_path), result.final_loss, len(rows), held_out, epochs, "", dict(result.metrics)
        )


def _write_rows(rows: Iterable[Mapping[str, Any]], file: Path) -> None:
    with replacing(file) as lines:
        for number, row in enumerate(rows, 1):
            try:
                prompt = row["prompt"]
                made = {"prompt": [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt}
                made |= {name: as_answer_messages(row[name]) for name in ("chosen", "rejected")}
            except KeyError as error:
                raise UsageError(f"row {number} lacks {error}") from None
            lines.write(
                json.dumps({**made, "prompt_key": str(row.get("question_id", number))}, ensure_ascii=False) + "\n"
            )
