"""Miniagent: agents that call tools, trained on tasks from a YAML file and a folder of JSON lines.

Imports: base, environments."""

from functools import partial
from typing import Final

from rl.base.leaves import lazy_name

NAMES: Final = {
    **{name: f"rl.environments.tasks.{name}" for name in ("CodeTaskDataset", "SearchTaskDataset")},
    **{name: f"{__name__}.tasks.{name}" for name in ("CodeTaskSampler", "load_code_task_dataset")},
}
"""Name that its users import to dotted path."""
__getattr__ = partial(lazy_name, __name__, paths=NAMES)
