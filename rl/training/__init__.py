"""Training methods: modules with ``train(job: TrainingJob, report: Report) -> TrainingResult``, listed in
``rl.config.methods``.

Each trains, or goes on from the newest checkpoint; ``output_dir/adapter`` or ``output_dir/model`` appears whole. It raises
Interrupted after a checkpoint when ``report`` does, RewardFailed when a reward breaks, and UsageError, TrainingFailed,
NotEnoughData or BadFile otherwise.

Imports: base, config, data_formatter, environments, hardware, judge, lm; torch.
"""

from types import ModuleType
from typing import Any

from rl.base.leaves import lazy_name, leaf
from rl.base.records import TrainingResult
from rl.config import RewardModelConfig, TrainingConfig, find_method

__all__ = ["RLTrainer", "RewardModelConfig", "TrainingConfig", "TrainingPipeline", "TrainingResult", "method"]


_LAZY = {"RLTrainer": "rl.runs.pipeline.RLTrainer", "TrainingPipeline": "rl.runs.pipeline.TrainingPipeline"}


def __getattr__(name: str) -> Any:
    return lazy_name(__name__, name, _LAZY)


def method(name: str) -> ModuleType:
    """The method's module, imported on first use because it brings torch along. Raises UsageError that lists the known
    methods."""
    return leaf(find_method(name).module)
