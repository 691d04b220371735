"""Hyper-parameters, presets, and a record for each training method.

Imports: base.
"""

from __future__ import annotations

from rl.config.authority import check_overrides
from rl.config.base import TrainingConfig
from rl.config.method_configs import (
    AgentConfig,
    DPOConfig,
    GRPOConfig,
    ImitationConfig,
    MPOConfig,
    RewardModelConfig,
)
from rl.config.methods import METHODS, Method, Rows, config_class, find_method, find_rows
from rl.config.ppo_config import PPOConfig
from rl.config.presets import AUTO, PRESETS, preset

__all__ = [
    "AUTO",
    "METHODS",
    "PRESETS",
    "AgentConfig",
    "DPOConfig",
    "GRPOConfig",
    "ImitationConfig",
    "MPOConfig",
    "Method",
    "PPOConfig",
    "RewardModelConfig",
    "Rows",
    "TrainingConfig",
    "check_overrides",
    "config_class",
    "find_method",
    "find_rows",
    "preset",
]
