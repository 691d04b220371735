"""N3: scored answers, and policies that are numbered by how many of them they learned from; and the Python names that its
users call, which are imported when they are asked for.

Imports: base, collect, config, evaluation, hardware, lm, models, runs, scoring, training, versions, web; Django."""

from functools import partial
from typing import Final

from rl.base.leaves import lazy_name

_MODULES: Final = {
    "trainer": (
        *("DatasetConfig", "RewardModelConfig", "TrainingConfig"),
        *("RLHFTrainer", "RewardModel", "train_reward_model"),
    ),
    "result_file": ("FeedbackExample", "TrainingResult", "prepare_feedback_dataset", "prepare_ppo_dataset"),
}
NAMES: Final = {name: f"{__name__}.{module}.{name}" for module, names in _MODULES.items() for name in names}
"""Name to dotted path."""
__getattr__ = partial(lazy_name, __name__, paths=NAMES)
