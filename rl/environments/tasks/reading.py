"""Files of tasks: JSON lines, blank ones skipped, or a JSON list (``.json``). One pass finds tasks and every problem."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from rl.base.errors import BadFile, UsageError
from rl.base.outside_files import read_bytes
from rl.data_formatter.jsonl import json_value, raw_lines
from rl.environments.tasks.records import CodeTask, SearchTask, Task
from rl.environments.tasks.replay_fields import FieldProblem, json_kind

SUFFIXES = (".jsonl", ".json")

T = TypeVar("T", bound=Task)


def read_tasks(path: Path | str, kind: type[T]) -> list[T]:
    """One or more. Raises BadFile with the line and the field of the first problem."""
    tasks = []
    for entry in _read_entries(Path(path), kind):
        if isinstance(entry, BadFile):
            raise entry
        tasks.append(entry)
    return tasks


def check_tasks(path: Path | str, kind: type[Task], most: int = 20) -> list[BadFile]:
    """The first problems of a file, in its order; none when ``read_tasks`` would read it."""
    return list(islice((entry for entry in _read_entries(Path(path), kind) if isinstance(entry, BadFile)), most))


def _read_entries(path: Path, kind: type[T]) -> Iterator[T | BadFile]:
    seen: dict[str, str] = {}
    where = ""
    try:
        for where, row in _list_rows(path) if path.suffix == ".json" else _line_rows(path):
            yield from [row] if isinstance(row, BadFile) else _in_row(path, where, row, kind, seen)
    except BadFile as error:
        yield error
        return
    if not where:
        yield BadFile(path, "has no tasks; it must have one JSON object on each line")


def _line_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Where a task stands, and its JSON, or why it is not JSON. Raises BadFile."""
    for number, line in raw_lines(path):
        try:
            row = json_value(path, number, line)
        except BadFile as error:
            row = error
        yield f"line {number}", row


def _list_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """As ``_line_rows``, of a file that is one list."""
    content = read_bytes(path, advice=": write one task a line into a .jsonl file")
    try:
        rows = json.loads(content)
        json.dumps(rows, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadFile(path, f"not valid JSON: {error}") from error
    if not isinstance(rows, list):
        raise BadFile(path, f"must be a list of tasks, not {json_kind(rows)}")
    yield from ((f"task {number}", row) for number, row in enumerate(rows, start=1))


def _in_row(path: Path, where: str, row: Any, kind: type[T], seen: dict[str, str]) -> Iterator[T | BadFile]:
    """``seen``: where each task_id stands first."""
    problems = list(kind.problems(row))
    task_id = row.get("task_id") if isinstance(row, dict) else None
    if isinstance(task_id, str) and (first := seen.setdefault(task_id, where)) != where:
        problems.append(FieldProblem("field 'task_id'", f"{task_id!r:.80} is the task of {first} already"))
    for problem in problems:
        yield BadFile(path, problem.what, ", ".join(filter(None, (where, problem.field))))
    if not problems:
        yield kind.from_row(row)


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
