"""Training methods: modules with ``train(job: TrainingJob, report: Report) -> TrainingResult``, listed in
``rl.config.methods``.

Imports: base, config, data_formatter, environments, lm; torch.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from rl.base.leaves import leaf
from rl.base.records import TrainingResult
from rl.config import RewardModelConfig, TrainingConfig, find_method

_EXPORTED = {"RLTrainer": "rl.runs.pipeline", "TrainingPipeline": "rl.runs.pipeline"}

__all__ = [
    "RLTrainer",
    "RewardModelConfig",
    "TrainingConfig",
    "TrainingPipeline",
    "TrainingResult",
    "method",
]


def __getattr__(name: str) -> Any:
    """What needs this module itself, imported when it is asked for."""
    if name in _EXPORTED:
        return getattr(import_module(_EXPORTED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def method(name: str) -> ModuleType:
    """The method's module, imported on first use because it brings torch along. Raises UsageError that lists the known
    methods."""
    return leaf(find_method(name).module)
