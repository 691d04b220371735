"""Hyper-parameters and presets.

Imports: base.
"""

from __future__ import annotations

from rl.config.authority import check_overrides
from rl.config.base import TrainingConfig
from rl.config.methods import (
    CONFIGS,
    AgentConfig,
    GRPOConfig,
    PPOConfig,
    RewardModelConfig,
    config_class,
)
from rl.config.presets import PRESETS, preset

__all__ = [
    "CONFIGS",
    "PRESETS",
    "AgentConfig",
    "GRPOConfig",
    "PPOConfig",
    "RewardModelConfig",
    "TrainingConfig",
    "check_overrides",
    "config_class",
    "preset",
]
