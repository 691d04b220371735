"""This machine and hyper-parameters under ToolBoxV2's names, with the numbers that Ratchet recommends, and as Ratchet's
own."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final, Self

from rl import hardware as core
from rl.base.errors import BadFile, UsageError
from rl.base.files import write_json
from rl.base.names import unknown_name
from rl.base.outside_files import read_text
from rl.config import GRPOConfig, config_class
from rl.config import TrainingConfig as CoreConfig
from rl.from_systems import toolbox

TARGET_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj")


class HardwareProfile(Enum):
    RYZEN_OPTIMIZED = "ryzen_optimized"
    AUTO_DETECT = "auto_detect"
    GPU_ENABLED = "gpu_enabled"
    CPU_ONLY = "cpu_only"


@dataclass
class HardwareConfig:
    cpu_name: str = ""
    cpu_cores: int = 1
    cpu_threads: int = 1
    has_avx2: bool = False
    has_avx512: bool = False
    ram_gb: float = 8.0
    available_ram_gb: float = 8.0
    has_gpu: bool = False
    gpu_name: str = ""
    gpu_vram_gb: float = 0.0
    cuda_available: bool = False
    storage_path: str = ""
    storage_free_gb: float = 0.0
    profile: HardwareProfile = HardwareProfile.AUTO_DETECT
    recommended_batch_size: int = 1
    recommended_model_size: str = "0.5B"
    use_fp16: bool = False
    """Always False: where a GPU has it, bfloat16 is taken."""
    use_bf16: bool = False
    gradient_checkpointing: bool = True
    num_workers: int = 0
    lora_r: int = 8
    lora_alpha: int = 16
    num_generations: int = 4
    max_completion_length: int = 256
    gradient_accumulation_steps: int = 8

    def get_training_device(self) -> str:
        return "cuda" if self.cuda_available else "cpu"

    def get_torch_dtype(self) -> str:
        return "bfloat16" if self.use_bf16 else "float32"

    def to_training_args(self) -> dict[str, Any]:
        return {
            "per_device_train_batch_size": self.recommended_batch_size,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "gradient_checkpointing": self.gradient_checkpointing,
            "bf16": self.use_bf16,
            "fp16": self.use_fp16,
            "dataloader_num_workers": self.num_workers,
            "use_cpu": not self.has_gpu,
        }

    def to_lora_config(self) -> dict[str, Any]:
        return {
            "r": self.lora_r,
            "lora_alpha": self.lora_alpha,
            "lora_dropout": 0.05,
            "bias": "none",
            "task_type": "CAUSAL_LM",
            "target_modules": list(TARGET_MODULES),
        }

    def to_grpo_config(self) -> dict[str, Any]:
        lengths = {"num_generations": self.num_generations, "max_completion_length": self.max_completion_length}
        return {**lengths, "use_vllm": False}

    def summary(self) -> str:
        gpu = f"{self.gpu_name}, {self.gpu_vram_gb:.1f} GiB" if self.has_gpu else "none"
        return "\n".join(
            [
                f"Profile: {self.profile.value}",
                f"CPU: {self.cpu_name}, {self.cpu_cores} cores, {self.cpu_threads} threads",
                f"RAM: {self.ram_gb:.1f} GiB, {self.available_ram_gb:.1f} free",
                f"GPU: {gpu}",
                f"Model size: {self.recommended_model_size}",
                f"Batch size: {self.recommended_batch_size} x {self.gradient_accumulation_steps}",
                f"LoRA: r {self.lora_r}, alpha {self.lora_alpha}",
                f"Precision: {self.get_torch_dtype()}",
                f"Generations: {self.num_generations}",
            ]
        )


RYZEN_5950X = core.HardwareConfig(
    platform="",
    cpu="AMD Ryzen 9 5950X 16-Core Processor",
    physical_cores=16,
    logical_cores=32,
    usable_cores=32,
    cpu_bf16=False,
    ram_total=40 * core.GIB,
    ram_available=32 * core.GIB,
    disk_free=0,
    cpu_avx2=True,
)
"""The desktop that ToolBoxV2's profile was made for."""


def detect_hardware(storage_path: Path | str | None = None) -> HardwareConfig:
    """``storage_path``: where models would be written; it need not exist yet."""
    path = _storage(storage_path)
    machine = core.detect_hardware(path)
    desktop = any(name in machine.cpu for name in ("5950X", "5900X")) and not machine.gpus
    return _configure(machine, "RYZEN_OPTIMIZED" if desktop else "AUTO_DETECT", path)


def get_ryzen_optimized_config(storage_path: Path | str | None = None) -> HardwareConfig:
    """What suits a Ryzen 9 5950X with 40 GiB, wherever this runs."""
    return _configure(RYZEN_5950X, "RYZEN_OPTIMIZED", _storage(storage_path))


def _storage(path: Path | str | None) -> Path:
    return Path(path) if path else toolbox.data_folder() / "models"


def _configure(machine: core.HardwareConfig, profile: str, path: Path) -> HardwareConfig:
    advice = core.recommend(machine, profile).values
    gpu = max(machine.gpus, key=lambda gpu: gpu.memory_total, default=None)
    return HardwareConfig(
        cpu_name=machine.cpu,
        cpu_cores=machine.physical_cores,
        cpu_threads=machine.logical_cores,
        has_avx2=machine.cpu_avx2,
        has_avx512=machine.cpu_avx512,
        ram_gb=machine.ram_total / core.GIB,
        available_ram_gb=machine.ram_available / core.GIB,
        has_gpu=gpu is not None,
        gpu_name=gpu.name if gpu else "",
        gpu_vram_gb=gpu.memory_total / core.GIB if gpu else 0.0,
        cuda_available=machine.device in ("cuda", "rocm"),
        storage_path=str(path),
        storage_free_gb=machine.disk_free / core.GIB,
        profile=HardwareProfile.GPU_ENABLED if gpu else HardwareProfile[profile],
        recommended_batch_size=advice["batch_size"],
        recommended_model_size=advice["model_size"],
        use_bf16=advice["precision"] in ("bf16", "auto"),
        gradient_checkpointing=advice["activation_checkpointing"],
        num_workers=advice["dataloader_workers"],
        lora_r=advice["lora_r"],
        lora_alpha=advice["lora_alpha"],
        num_generations=advice["num_generations"],
        max_completion_length=int(GRPOConfig().max_new_tokens),
        gradient_accumulation_steps=advice["gradient_accumulation"],
    )


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
    *("lora_target_modules", "desirable_weight", "undesirable_weight", "use_cpu", "use_fp16"),
    *("weight_decay", "logging_steps", "eval_steps", "early_stopping_patience"),
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
    def load(cls, path: Path | str) -> Self:
        """Raises BadFile."""
        try:
            return cls(**json.loads(read_text(Path(path))))
        except (RecursionError, ValueError, TypeError) as error:
            raise BadFile(path, f"is not a training configuration ({error})") from error

    @classmethod
    def from_hardware_config(cls, hw_config: HardwareConfig, **overrides: Any) -> Self:
        """What suits the machine. Raises UsageError for an override that is not a field."""
        known = [item.name for item in fields(cls)]
        if unknown := sorted(set(overrides) - set(known)):
            raise UsageError(unknown_name("hyper-parameter", unknown[0], known))
        same = [item.name for item in fields(HardwareConfig) if item.name in known and item.name != "use_fp16"]
        chosen: dict[str, Any] = {name: getattr(hw_config, name) for name in same}
        own = {"per_device_batch_size": hw_config.recommended_batch_size, "use_cpu": not hw_config.has_gpu}
        return cls(**{**chosen, **own, **overrides})

    def to_core(self) -> CoreConfig:
        """Ratchet's configuration of the method, as far as it has these. ``use_bf16`` counts where the processor has it; a
        GPU that has it uses it anyway. Raises UsageError for an unknown method or an impossible value."""
        start = config_class(self.method)()
        own = {OUR_NAMES.get(entry.name, entry.name): getattr(self, entry.name) for entry in fields(self)}
        values = {entry.name: own[entry.name] for entry in fields(start) if entry.name in own}
        machine = core.detect_hardware() if self.use_bf16 else None
        precision = "bf16" if machine and machine.cpu_bf16 and not machine.gpus else "auto"
        return start.with_overrides({**values, "precision": precision})

    def without_effect(self) -> list[str]:
        """Fields that were changed and change nothing."""
        usual = TrainingConfig()
        return [name for name in WITHOUT_EFFECT if getattr(self, name) != getattr(usual, name) and name != "use_cpu"]
