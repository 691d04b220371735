"""Where bfloat16 is computed in. On a CPU that has nothing for it a step takes some 25 times as long
as in float32 (figures in docs/training.md).

Loading the base model in 4 bits is bitsandbytes's work; training so is proven on NVIDIA GPUs."""

import importlib.util
from typing import Final

from rl.base.errors import UsageError
from rl.config import TrainingConfig
from rl.hardware.detecting import HardwareConfig

REPLACED: Final = "float32 instead of bfloat16, for which this CPU has no instructions that PyTorch uses"
PACKAGE = "bitsandbytes"


def precision_on(precision: str, device: str, cpu_runs_bf16: bool) -> str:
    """Auto, fp32 or bf16: what is computed in where ``precision`` is asked for. ``device``: cpu, or another."""
    return "fp32" if precision == "bf16" and device == "cpu" and not cpu_runs_bf16 else precision


def precision_here(config: TrainingConfig, hardware: HardwareConfig) -> str:
    return precision_on(config.precision, hardware.device, hardware.cpu_runs_bf16)


def trains_in_bf16(config: TrainingConfig, hardware: HardwareConfig) -> bool:
    precision = precision_here(config, hardware)
    return precision == "bf16" or (precision == "auto" and bool(hardware.gpus))


def in_4bit(quantize_base: str, hardware: HardwareConfig) -> bool:
    """``quantize_base``: none, auto or 4bit. Raises UsageError for 4bit where it cannot work."""
    if quantize_base == "none":
        return False
    obstacle = ""
    if hardware.device != "cuda":
        obstacle = "that needs an NVIDIA GPU"
    elif importlib.util.find_spec(PACKAGE) is None:
        obstacle = f"that needs the package {PACKAGE} ('pip install {PACKAGE}')"
    if obstacle and quantize_base == "4bit":
        raise UsageError(f"the base model cannot be loaded in 4 bits here: {obstacle}; use --no-quantization")
    return not obstacle
