"""What this machine is, which numbers suit it, and about how long a training run would take on it.

Imports: base, config.
"""

from __future__ import annotations

from rl.hardware.cost import ModelShape, TrainingEstimate, estimate
from rl.hardware.detecting import GIB, Gpu, HardwareConfig, detect_hardware, usable_cores
from rl.hardware.four_bit import in_4bit
from rl.hardware.profiles import PROFILES, Recommendation, get_ryzen_optimized_config, recommend

__all__ = [
    "GIB",
    "PROFILES",
    "Gpu",
    "HardwareConfig",
    "ModelShape",
    "Recommendation",
    "TrainingEstimate",
    "detect_hardware",
    "estimate",
    "get_ryzen_optimized_config",
    "in_4bit",
    "recommend",
    "usable_cores",
]
