"""Whether the base model is loaded in 4 bits: bitsandbytes does it, and its training is proven on NVIDIA GPUs."""

from __future__ import annotations

import importlib.util

from rl.base.errors import UsageError
from rl.hardware.detecting import HardwareConfig

PACKAGE = "bitsandbytes"


def in_4bit(quantize_base: str, hardware: HardwareConfig) -> bool:
    """``quantize_base``: none, auto or 4bit. Raises UsageError for 4bit where it cannot work."""
    if quantize_base == "none":
        return False
    obstacle = _obstacle(hardware)
    if obstacle and quantize_base == "4bit":
        raise UsageError(f"the base model cannot be loaded in 4 bits here: {obstacle}; use --no-quantization")
    return not obstacle


def _obstacle(hardware: HardwareConfig) -> str:
    if hardware.device != "cuda":
        return "that needs an NVIDIA GPU"
    if importlib.util.find_spec(PACKAGE) is None:
        return f"that needs the package {PACKAGE} ('pip install {PACKAGE}')"
    return ""
