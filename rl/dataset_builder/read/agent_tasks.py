"""Where the tasks of an agent come from, and in which order."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.db.models import Avg, Case, F, FloatField, Value, When, Window
from django.db.models.functions import RowNumber

from rl.base.errors import UsageError
from rl.collect.traces.episodes import REPLAY, stored_task_id
from rl.dataset_builder.read.replays import replay_source
from rl.dataset_builder.rows.tasks import TaskSource
from rl.demo.agent_tasks import CODE_TASKS, SEARCH_TASKS
from rl.environments import environment_class
from rl.environments.settings import EnvironmentSettings
from rl.environments.tasks.reading import dataset_of
from rl.models import Agent, Episode

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

    Raises UsageError where there are none, BadFile for one that cannot be read, NotEnoughData without traces to replay."""
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


NEWEST = 16
"""Episodes of a task that count."""
_COUNTED = (Episode.Split.TRAIN, Episode.Split.NONE)


def by_success(agent: Agent, source: TaskSource) -> TaskSource:
    """Its tasks to train on in the order of ``hardest_first``, and a sentence about that."""
    rates = measured_rates(agent, source)
    if not rates:
        remark = f"no task of {agent.name} has been measured yet: they come in the order of the file"
        return replace(source, remarks=(*source.remarks, remark))
    kinds = census(source.train, rates)
    remark = "curriculum: " + ", then ".join(f"{kinds[kind]} {kind}" for kind in ORDER if kinds[kind])
    return replace(source, train=hardest_first(source.train, rates), remarks=(*source.remarks, remark))


def measured_rates(agent: Agent, source: TaskSource) -> dict[str, float]:
    """For each task to train on that has episodes in this environment: task_id to the share of its newest episodes that
    solved it. Held-out episodes do not count, nor those whose world broke."""
    stored = _success_rates(agent, source.settings.type)
    ids = {str(task["task_id"]): stored_task_id(str(task["task_id"])) for task in source.train}
    return {task_id: stored[stored_id] for task_id, stored_id in ids.items() if stored_id in stored}


def _success_rates(agent: Agent, environment: str) -> Mapping[str, float]:
    rank = Window(RowNumber(), partition_by=F("task_id"), order_by=F("id").desc())
    episodes = agent.episodes.filter(environment=environment, split__in=_COUNTED, reward__isnull=False).order_by()
    newest = episodes.annotate(rank=rank).filter(rank__lte=NEWEST)
    solved = Case(When(success=True, then=Value(1.0)), default=Value(0.0), output_field=FloatField())
    of_tasks = Episode.objects.filter(pk__in=newest.values("pk")).order_by().values("task_id")
    return dict(of_tasks.annotate(rate=Avg(solved)).values_list("task_id", "rate"))


SOMETIMES, UNTRIED, NEVER, ALWAYS = "sometimes solved", "never tried", "never solved", "always solved"
ORDER = (SOMETIMES, UNTRIED, NEVER, ALWAYS)
"""A group whose episodes all end alike teaches nothing: first the tasks that do teach, then those of which nobody knows."""
Task = Mapping[str, Any]


def hardest_first(tasks: Iterable[Task], rates: Mapping[str, float]) -> list[Task]:
    """``rates``: task_id to the share of its episodes that solved it, 0 to 1; one that was never tried has none. Within
    SOMETIMES the hardest comes first; equals stay in the order given."""

    def rank(task: Task) -> tuple[int, float]:
        rate = rates.get(task["task_id"])
        return ORDER.index(_kind(rate)), rate or 0.0

    return sorted(tasks, key=rank)


def census(tasks: Iterable[Task], rates: Mapping[str, float]) -> Counter[str]:
    """How many tasks of each kind of ORDER there are."""
    return Counter(_kind(rates.get(task["task_id"])) for task in tasks)


def _kind(rate: float | None) -> str:
    if rate is None:
        return UNTRIED
    return NEVER if rate <= 0 else ALWAYS if rate >= 1 else SOMETIMES
