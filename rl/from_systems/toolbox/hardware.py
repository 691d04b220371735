"""This machine under ToolBoxV2's names, with the numbers that Ratchet recommends for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rl import hardware as core
from rl.config import GRPOConfig
from rl.from_systems.toolbox import places
from rl.hardware import GIB

TARGET_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj")
_DESKTOPS = ("5950X", "5900X")


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
        lengths = {name: getattr(self, name) for name in ("num_generations", "max_completion_length")}
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
    ram_total=40 * GIB,
    ram_available=32 * GIB,
    disk_free=0,
    cpu_avx2=True,
)
"""The desktop that ToolBoxV2's profile was made for."""


def detect_hardware(storage_path: Path | str | None = None) -> HardwareConfig:
    """``storage_path``: where models would be written; it need not exist yet."""
    path = _storage(storage_path)
    machine = core.detect_hardware(path)
    desktop = any(name in machine.cpu for name in _DESKTOPS) and not machine.gpus
    return _configure(machine, "RYZEN_OPTIMIZED" if desktop else "AUTO_DETECT", path)


def get_ryzen_optimized_config(storage_path: Path | str | None = None) -> HardwareConfig:
    """What suits a Ryzen 9 5950X with 40 GiB, wherever this runs."""
    return _configure(RYZEN_5950X, "RYZEN_OPTIMIZED", _storage(storage_path))


def _storage(path: Path | str | None) -> Path:
    return Path(path) if path else places.data_folder() / "models"


def _configure(machine: core.HardwareConfig, profile: str, path: Path) -> HardwareConfig:
    advice = core.recommend(machine, profile)
    gpu = max(machine.gpus, key=lambda gpu: gpu.memory_total, default=None)
    return HardwareConfig(
        cpu_name=machine.cpu,
        cpu_cores=machine.physical_cores,
        cpu_threads=machine.logical_cores,
        has_avx2=machine.cpu_avx2,
        has_avx512=machine.cpu_avx512,
        ram_gb=machine.ram_total / GIB,
        available_ram_gb=machine.ram_available / GIB,
        has_gpu=gpu is not None,
        gpu_name=gpu.name if gpu else "",
        gpu_vram_gb=gpu.memory_total / GIB if gpu else 0.0,
        cuda_available=machine.device in ("cuda", "rocm"),
        storage_path=str(path),
        storage_free_gb=machine.disk_free / GIB,
        profile=HardwareProfile.GPU_ENABLED if gpu else HardwareProfile[profile],
        **_read_advice(advice.values),
    )


def _read_advice(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "recommended_batch_size": values["batch_size"],
        "recommended_model_size": values["model_size"],
        "use_bf16": values["precision"] in ("bf16", "auto"),
        "gradient_checkpointing": values["activation_checkpointing"],
        "num_workers": values["dataloader_workers"],
        "lora_r": values["lora_r"],
        "lora_alpha": values["lora_alpha"],
        "num_generations": values["num_generations"],
        "max_completion_length": int(GRPOConfig().max_new_tokens),
        "gradient_accumulation_steps": values["gradient_accumulation"],
    }
