"""Hyper-parameters of single methods, beside those that all have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from rl.config.base import TrainingConfig
from rl.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPOConfig(TrainingConfig):
    """Group relative policy optimisation (Shao et al., 2024)."""

    RANGES: ClassVar[Mapping[str, tuple[float, float]]] = {
        **TrainingConfig.RANGES,
        "num_generations": (2, 64),
        "temperature": (0.01, 10),
        "top_p": (0.01, 1),
        "max_new_tokens": (1, 100_000),
    }
    INTEGERS: ClassVar[frozenset[str]] = TrainingConfig.INTEGERS | {"num_generations", "max_new_tokens"}
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **TrainingConfig.CHOICES,
        "rollouts": ("online", "offline"),
        "loss_type": ("grpo", "dr_grpo", "bnpo", "dapo", "cispo"),
    }

    epochs: float = 1.0
    learning_rate: float = 1e-5
    beta: float = 0.04
    """Weight of the KL divergence from the base model."""
    rollouts: str = "online"
    """online: answers are generated and rewarded while training; offline: the rewarded answers that are stored."""
    num_generations: int = 8
    """Answers to a prompt, compared with each other."""
    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 256
    """Of one answer."""
    loss_type: str = "dapo"
    """How a token's loss is averaged; see TRL's GRPOConfig."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PPOConfig(TrainingConfig):
    """Proximal policy optimisation of a language model (Schulman et al., 2017; Ziegler et al., 2019)."""

    RANGES: ClassVar[Mapping[str, tuple[float, float]]] = {
        **TrainingConfig.RANGES,
        "init_kl_coef": (0, 100),
        "target_kl": (0, 1000),
        "gamma": (0, 1),
        "lam": (0, 1),
        "cliprange": (0, 10),
        "cliprange_value": (0, 10),
        "vf_coef": (0, 100),
        "ppo_epochs": (1, 100),
        "mini_batch_size": (1, 1024),
        "max_steps": (1, 10_000_000),
        "max_new_tokens": (1, 100_000),
        "temperature": (0.01, 10),
        "top_k": (0, 1_000_000),
        "top_p": (0.01, 1),
    }
    INTEGERS: ClassVar[frozenset[str]] = TrainingConfig.INTEGERS | {
        "ppo_epochs", "mini_batch_size", "max_new_tokens", "top_k",
    }  # fmt: skip
    OF_PRESETS: ClassVar[Mapping[str, str]] = {"batch_size": "mini_batch_size", "gradient_accumulation": ""}

    batch_size: int = 8
    """Answers that are generated and rewarded before the policy is updated."""
    mini_batch_size: int = 4
    """Answers in one update."""
    gradient_accumulation: int = 1
    learning_rate: float = 1e-5
    init_kl_coef: float = 0.2
    """First weight of the KL penalty; it adapts to keep the divergence near ``target_kl``."""
    target_kl: float = 6.0
    """Nats an answer."""
    gamma: float = 1.0
    lam: float = 0.95
    """Of generalised advantage estimation."""
    cliprange: float = 0.2
    cliprange_value: float = 0.2
    vf_coef: float = 0.1
    ppo_epochs: int = 4
    """Passes over each batch."""
    max_steps: int = 1000
    """Batches."""
    max_new_tokens: int = 128
    temperature: float = 1.0
    top_k: int = 50
    """0: all tokens."""
    top_p: float = 0.95

    def __post_init__(self) -> None:
        TrainingConfig.__post_init__(self)
        if self.mini_batch_size > self.batch_size:
            raise UsageError(
                f"mini_batch_size is a part of batch_size, {self.mini_batch_size} cannot be more than {self.batch_size}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModelConfig(TrainingConfig):
    """A model that gives an answer a number (Bradley and Terry, 1952)."""

    epochs: float = 2.0
    learning_rate: float = 1e-4


CONFIGS: dict[str, type[TrainingConfig]] = {
    "dpo": TrainingConfig,
    "kto": TrainingConfig,
    "grpo": GRPOConfig,
    "ppo": PPOConfig,
    "reward_model": RewardModelConfig,
}


def check_overrides(overrides: Mapping[str, Any]) -> None:
    """Raises UsageError for a hyper-parameter that no method has, or a value that is impossible for one that has it."""
    known = {method: {field.name for field in fields(kind)} for method, kind in CONFIGS.items()}
    every = set().union(*known.values())
    if unknown := sorted(set(overrides) - every):
        raise UsageError(f"unknown hyper-parameter {', '.join(unknown)}; known: {', '.join(sorted(every))}")
    for method, kind in CONFIGS.items():
        kind().with_overrides({name: value for name, value in overrides.items() if name in known[method]})


def config_class(method: str) -> type[TrainingConfig]:
    """Raises UsageError that lists the known methods."""
    if method not in CONFIGS:
        raise UsageError(f"unknown training method {method!r}; known: {', '.join(CONFIGS)}")
    return CONFIGS[method]
