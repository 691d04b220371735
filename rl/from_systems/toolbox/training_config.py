"""Hyper-parameters under ToolBoxV2's names, and as Ratchet's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from rl import hardware as core
from rl.base.errors import BadFile, UsageError
from rl.base.files import write_json
from rl.base.names import unknown_name
from rl.base.outside_files import read_text
from rl.config import TrainingConfig as CoreConfig
from rl.config import config_class
from rl.from_systems.toolbox.hardware import TARGET_MODULES, HardwareConfig

OUR_NAMES: Final[Mapping[str, str]] = {
    "num_epochs": "epochs",
    "per_device_batch_size": "batch_size",
    "gradient_accumulation_steps": "gradient_accumulation",
    "max_seq_length": "max_length",
    "max_completion_length": "max_new_tokens",
    "gradient_checkpointing": "activation_checkpointing",
}
"""ToolBoxV2's name to ours, of fields that mean the same."""
WITHOUT_EFFECT: Final = (
    "lora_target_modules",
    "desirable_weight",
    "undesirable_weight",
    "use_cpu",
    "use_fp16",
    "weight_decay",
    "logging_steps",
    "eval_steps",
    "early_stopping_patience",
)
"""Ratchet chooses these itself: the device and the precision by the machine, KTO's weights by how many of each there are."""


@dataclass
class TrainingConfig:
    base_model: str = "Qwen/Qwen2.5-1.5B-Instruct"
    output_dir: str = "./rl_output"
    method: str = "grpo"
    lora_r: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.05
    lora_target_modules: list[str] = field(default_factory=lambda: list(TARGET_MODULES))
    learning_rate: float = 5e-5
    num_epochs: int = 3
    per_device_batch_size: int = 1
    gradient_accumulation_steps: int = 8
    max_seq_length: int = 2048
    num_generations: int = 4
    max_completion_length: int = 512
    beta: float = 0.1
    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0
    use_cpu: bool = True
    use_bf16: bool = False
    use_fp16: bool = False
    gradient_checkpointing: bool = True
    warmup_ratio: float = 0.1
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    logging_steps: int = 10
    save_steps: int = 100
    eval_steps: int = 50
    early_stopping_patience: int = 3

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def save(self, path: Path | str) -> None:
        write_json(Path(path), self.to_dict())

    @classmethod
    def load(cls, path: Path | str) -> TrainingConfig:
        """Raises BadFile."""
        try:
            return cls(**json.loads(read_text(Path(path))))
        except (RecursionError, ValueError, TypeError) as error:
            raise BadFile(path, f"is not a training configuration ({error})") from error

    @classmethod
    def from_hardware_config(cls, hw_config: HardwareConfig, **overrides: Any) -> TrainingConfig:
        """What suits the machine. Raises UsageError for an override that is not a field."""
        known = [item.name for item in fields(cls)]
        if unknown := sorted(set(overrides) - set(known)):
            raise UsageError(unknown_name("hyper-parameter", unknown[0], known))
        chosen = {
            "lora_r": hw_config.lora_r,
            "lora_alpha": hw_config.lora_alpha,
            "per_device_batch_size": hw_config.recommended_batch_size,
            "gradient_accumulation_steps": hw_config.gradient_accumulation_steps,
            "num_generations": hw_config.num_generations,
            "max_completion_length": hw_config.max_completion_length,
            "use_cpu": not hw_config.has_gpu,
            "use_bf16": hw_config.use_bf16,
            "gradient_checkpointing": hw_config.gradient_checkpointing,
        }
        return cls(**{**chosen, **overrides})

    def to_core(self) -> CoreConfig:
        """Ratchet's configuration of the method, as far as it has these. ``use_bf16`` counts where the processor has it; a
        GPU that has it uses it anyway. Raises UsageError for an unknown method or an impossible value."""
        start = config_class(self.method)()
        own = {OUR_NAMES.get(entry.name, entry.name): getattr(self, entry.name) for entry in fields(self)}
        values = {entry.name: own[entry.name] for entry in fields(start) if entry.name in own}
        precision = "bf16" if self.use_bf16 and _has_bf16() else "auto"
        return start.with_overrides({**values, "precision": precision})

    def without_effect(self) -> list[str]:
        """Fields that were changed and change nothing."""
        usual = TrainingConfig()
        return [name for name in WITHOUT_EFFECT if getattr(self, name) != getattr(usual, name) and name != "use_cpu"]


def _has_bf16() -> bool:
    machine = core.detect_hardware()
    return machine.cpu_bf16 and not machine.gpus
