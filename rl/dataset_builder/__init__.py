"""From feedback to training sets: which feedback is read, how it is split, and rows that never change afterwards.

``survey`` counts what would be written, ``freeze`` writes it as a TrainingSet; both also from files and from tasks.
``DatasetPipeline``, ``prepare_training_dataset`` and ``get_training_stats`` are for users of other systems.

Imports: base, collect, config, data_formatter, demo, environments, models,
raters, rewards; Django."""

# ruff: noqa: F401  for others to import from here
from rl.dataset_builder.frozen.freezing import freeze
from rl.dataset_builder.frozen.marking import mark, reclaim, release
from rl.dataset_builder.frozen.splitting import Split, is_held_out
from rl.dataset_builder.options import PAIR_TYPES, DataOptions
from rl.dataset_builder.plan.plan import training_plan
from rl.dataset_builder.plan.survey import LengthSpread, Survey, survey
from rl.dataset_builder.read.agent_tasks import task_source
from rl.dataset_builder.read.files import FileSource
from rl.dataset_builder.read.repeats import count_repeats
from rl.dataset_builder.rows.tasks import TaskSource
from rl.dataset_builder.training_dataset import DatasetPipeline, get_training_stats, prepare_training_dataset
