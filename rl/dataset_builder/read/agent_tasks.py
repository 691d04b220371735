"""Where the tasks of an agent come from, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl.base.errors import UsageError
from rl.collect.traces.episodes import REPLAY
from rl.dataset_builder.read.curriculum import by_success
from rl.dataset_builder.read.replays import replay_source
from rl.dataset_builder.rows.tasks import TaskSource
from rl.demo.agent_tasks import CODE_TASKS, SEARCH_TASKS
from rl.environments import environment_class
from rl.environments.settings import EnvironmentSettings
from rl.environments.tasks.datasets import dataset_of
from rl.models import Agent

DEMO_TASKS = {"code_exec": CODE_TASKS, "search": SEARCH_TASKS}
"""Environment to tasks that are there without any file of yours."""


def task_source(
    agent: Agent,
    settings: EnvironmentSettings,
    dataset_dir: str = "",
    train_split: str = "train",
    eval_split: str = "eval",
    *,
    val_split: float = 0.2,
    curriculum: bool = False,
) -> TaskSource:
    """``dataset_dir`` has a file ``<split>.jsonl`` for each split; an empty ``eval_split``: nothing is held out. Replays
    without a folder are of the agent's own traces; ``val_split``: share of their prompts that is held out.
    ``curriculum``: those to train on by how often the agent solved them, else in the order of the file.

    Raises UsageError where there are none, BadFile for one that cannot be read, NotEnoughData without traces to replay.
    """
    if settings.type == REPLAY and not dataset_dir:
        source = replay_source(agent, settings, val_split)
    else:
        source = _of_files(settings, dataset_dir, train_split, eval_split)
    return by_success(agent, source) if curriculum else source


def _of_files(settings: EnvironmentSettings, dataset_dir: str, train_split: str, eval_split: str) -> TaskSource:
    folder = Path(dataset_dir).expanduser() if dataset_dir else DEMO_TASKS.get(settings.type)
    if folder is None:
        raise UsageError(f"say where the tasks of {settings.type} are by --dataset-dir")
    tasks = dataset_of(environment_class(settings.type).tasks)

    def read(split: str) -> list[Mapping[str, Any]]:
        return [task.as_mapping() for task in tasks.from_directory(folder, split)]

    return TaskSource(settings, read(train_split), read(eval_split) if eval_split else [])
