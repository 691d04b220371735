"""What its files of tasks mean beside what ours do, and tasks in endless passes, as its scripts draw them.

``reference_solution`` is a text that marks success, ``ground_truth`` the program, and the program of a tool's call is
what the tests judge."""

import random
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from rl.base.errors import RatchetError
from rl.environments.code_exec import solution_of
from rl.environments.tasks import CodeTaskDataset, TaskDataset


def are_miniagents(folder: Path, split: str) -> bool:
    """Whether one of the first tasks has a text that marks success instead of a program. False for what cannot be read."""
    try:
        tasks = CodeTaskDataset.from_directory(folder, split)
    except RatchetError:  # which is told by those who read the tasks
        return False
    looked_at = [task.as_mapping() for task in islice(tasks, 50)]
    references = [(task, str(task.get("reference_solution") or "")) for task in looked_at]
    return any(text.strip() and solution_of(task) != text for task, text in references)


class CodeTaskSampler:
    """Draws from any data set of tasks; each is what ``reset`` of its environment takes. Raises ValueError for an empty
    one."""

    def __init__(self, dataset: TaskDataset[Any], shuffle: bool = True, seed: int | None = None) -> None:
        """``shuffle``: every pass has an order of its own, which ``seed`` decides."""
        if not dataset:
            raise ValueError("no tasks can be drawn from an empty data set")
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self._tasks = self._passes()

    def next(self, batch_size: int = 1) -> list[Mapping[str, Any]]:
        """Raises ValueError for less than 1."""
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, not {batch_size}")
        return list(islice(self._tasks, batch_size))

    def iter_batches(self, batch_size: int) -> Iterator[list[Mapping[str, Any]]]:
        while True:
            yield self.next(batch_size)

    def __iter__(self) -> Iterator[list[Mapping[str, Any]]]:
        return self.iter_batches(1)

    def _passes(self) -> Iterator[Mapping[str, Any]]:
        order, rng = list(self.dataset), random.Random(self.seed)  # noqa: S311  an order, no secret
        while True:
            if self.shuffle:
                rng.shuffle(order)
            yield from (task.to_env_task() for task in order)


def load_code_task_dataset(
    data_dir: Path | str, *, train_split: str = "train", eval_split: str = "eval", seed: int | None = None
) -> dict[str, CodeTaskDataset]:
    """Split to its tasks; ``seed``: of their order, as in the files without one. Raises UsageError and BadFile."""
    datasets = {split: CodeTaskDataset.from_directory(data_dir, split) for split in (train_split, eval_split)}
    return datasets if seed is None else {split: dataset.shuffle(seed) for split, dataset in datasets.items()}
