"""One split as a sequence."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from rl.base.errors import UsageError
from rl.environments.tasks.reading import SUFFIXES, read_tasks
from rl.environments.tasks.records import CodeTask, SearchTask, Task

T = TypeVar("T", bound=Task)


class TaskDataset(Sequence[T], Generic[T]):
    """The tasks of one split. It never changes: ``shuffle``, ``take`` and slices make another."""

    kind: ClassVar[type[Task]]

    def __init__(self, tasks: Iterable[T]) -> None:
        self._tasks = tuple(tasks)

    @classmethod
    def from_directory(cls, dataset_dir: Path | str, split: str = "train") -> Self:
        """Reads ``<split>.jsonl``, or ``<split>.json`` where there is none. Raises UsageError where
        there is no such split, BadFile as ``read_tasks``."""
        directory = Path(dataset_dir)
        if not directory.is_dir():
            raise UsageError(f"{directory} is not a folder; tasks are read from a folder with files like train.jsonl")
        files = {file.stem: file for suffix in reversed(SUFFIXES) for file in directory.glob(f"*{suffix}")}
        if split not in files:
            known = f"there are: {', '.join(sorted(files))}" if files else "it has no .jsonl file at all"
            raise UsageError(f"{directory} has no split {split!r}; {known}")
        return cls(read_tasks(files[split], cls.kind))  # type: ignore[arg-type]

    @classmethod
    def from_path(cls, path: Path | str, split: str = "train") -> Self:
        """``path``: of a file of tasks, or of a folder with ``split`` in it. Raises as ``from_directory``."""
        if Path(path).is_dir():
            return cls.from_directory(path, split)
        return cls(read_tasks(path, cls.kind))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._tasks)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> T | Self:
        return type(self)(self._tasks[index]) if isinstance(index, slice) else self._tasks[index]

    def shuffle(self, seed: int) -> Self:
        """The same seed gives the same order."""
        return type(self)(random.Random(seed).sample(self._tasks, len(self)))  # noqa: S311 - an order, no secret

    def take(self, n: int) -> Self:
        """The first ``n``, or all where there are fewer. Raises UsageError for less than 0."""
        if n < 0:
            raise UsageError(f"the number of tasks to take must be 0 or more, not {n}")
        return self[:n]


def dataset_of(kind: type[Task]) -> type[TaskDataset[Any]]:
    return type(f"{kind.__name__}Dataset", (TaskDataset,), {"kind": kind})


class CodeTaskDataset(TaskDataset[CodeTask]):
    kind = CodeTask


class SearchTaskDataset(TaskDataset[SearchTask]):
    kind = SearchTask
