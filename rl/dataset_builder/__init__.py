"""From feedback to training sets: which feedback is read, how it is split, and rows that never change afterwards.

- ``DataOptions``: which pairs to build
- ``survey``, ``survey_files``, ``survey_tasks``: what would be written, counted only
- ``freeze``, ``freeze_files``, ``freeze_tasks``: write it, as a TrainingSet
- ``task_source``: the tasks of an agent with tools
- ``release``, ``reclaim``: let the feedback of a failed run wait again, and undo that
- ``is_held_out``: the split
- ``count_repeats``: how often people disagree
- ``training_plan``: how many rows each method could use
- ``DatasetPipeline``, ``prepare_training_dataset``, ``get_training_stats``: the same under names that users of
  other systems know

Imports: base, collect, config, data_formatter, demo, environments, models,
raters, rewards; Django.
"""

from __future__ import annotations

from rl.dataset_builder.frozen.freezing import freeze, freeze_files, freeze_tasks
from rl.dataset_builder.frozen.marking import mark, reclaim, release
from rl.dataset_builder.frozen.splitting import Split, is_held_out
from rl.dataset_builder.options import PAIR_TYPES, DataOptions
from rl.dataset_builder.pipeline import DatasetPipeline
from rl.dataset_builder.plan.plan import training_plan
from rl.dataset_builder.plan.stats import get_training_stats
from rl.dataset_builder.plan.survey import Lengths, Survey, survey, survey_files, survey_tasks
from rl.dataset_builder.read.agent_tasks import task_source
from rl.dataset_builder.read.repeats import count_repeats
from rl.dataset_builder.rows.tasks import TaskSource
from rl.dataset_builder.training_dataset import prepare_training_dataset

__all__ = [
    "PAIR_TYPES",
    "DataOptions",
    "DatasetPipeline",
    "Lengths",
    "Survey",
    "TaskSource",
    "count_repeats",
    "freeze",
    "freeze_files",
    "freeze_tasks",
    "get_training_stats",
    "Split",
    "is_held_out",
    "mark",
    "prepare_training_dataset",
    "reclaim",
    "release",
    "survey",
    "survey_files",
    "survey_tasks",
    "task_source",
    "training_plan",
]
