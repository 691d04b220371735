"""Training methods by name. A method is a module with ``train(job: TrainingJob, report: Report) -> TrainingResult``.

Imports: base, config, data_formatter, environments, lm; torch.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from rl.base.errors import UsageError
from rl.base.leaves import leaf
from rl.base.records import TrainingResult
from rl.config import RewardModelConfig, TrainingConfig

METHODS: dict[str, str] = {
    "dpo": "rl.training.dpo",
    "kto": "rl.training.kto",
    "grpo": "rl.training.grpo",
    "agent": "rl.training.agent.train",
    "ppo": "rl.training.ppo.train",
    "reward_model": "rl.training.reward_model",
}


_EXPORTED = {"RLTrainer": "rl.runs.pipeline", "TrainingPipeline": "rl.runs.pipeline"}

__all__ = [
    "METHODS",
    "RLTrainer",
    "RewardModelConfig",
    "TrainingConfig",
    "TrainingPipeline",
    "TrainingResult",
    "method",
    "method_path",
]


def __getattr__(name: str) -> Any:
    """What needs this module itself, imported when it is asked for."""
    if name in _EXPORTED:
        return getattr(import_module(_EXPORTED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def method_path(name: str) -> str:
    """The dotted path of a method's module, which is not imported. Raises UsageError that lists the known names."""
    try:
        return METHODS[name]
    except KeyError:
        raise UsageError(f"unknown training method {name!r}; known: {', '.join(METHODS)}") from None


def method(name: str) -> ModuleType:
    """The method's module, imported on first use because it brings torch along."""
    return leaf(method_path(name))
