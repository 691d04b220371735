"""Hyper-parameters, presets, and a record for each training method.

Imports: base."""

# ruff: noqa: F401  for others to import from here
from rl.config.authority import check_overrides
from rl.config.base import TrainingConfig
from rl.config.method_configs import (
    AgentConfig,
    DPOConfig,
    GRPOConfig,
    ImitationConfig,
    MPOConfig,
    RewardModelConfig,
    SFTConfig,
)
from rl.config.methods import METHODS, Method, config_class, find_method, find_rows
from rl.config.ppo_config import PPOConfig
from rl.config.presets import AUTO, PRESETS, preset
