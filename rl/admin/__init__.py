"""Records of what happened are read-only, most of them one entry of ``records``; agents, experiments and keys are edited.

Imports: base, config, dataset_builder, evaluation, forgetting, models, online_learner, operations, registered, rewards,
    serving; Django."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
