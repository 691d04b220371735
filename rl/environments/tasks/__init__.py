"""Tasks for environments: what their files hold, how they are checked, and how they are read. No Django, no torch."""

# ruff: noqa: F401  for others to import from here
from rl.environments.tasks.reading import CodeTaskDataset, SearchTaskDataset, TaskDataset, check_tasks, read_tasks
from rl.environments.tasks.records import AnyTask, CodeTask, CodeTest, ReplayTask, SearchTask, Task
