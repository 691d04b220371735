"""Files of tasks: JSON lines, blank ones skipped. One pass finds the tasks and every problem."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from rl.base.errors import BadFile
from rl.data_formatter.jsonl import json_value, raw_lines
from rl.environments.tasks.fields import Problem
from rl.environments.tasks.records import Task

MOST_PROBLEMS = 20

T = TypeVar("T", bound=Task)


def read_tasks(path: Path | str, kind: type[T]) -> list[T]:
    """One or more. Raises BadFile with the line and the field of the first problem."""
    tasks = []
    for entry in _read_entries(Path(path), kind):
        if isinstance(entry, BadFile):
            raise entry
        tasks.append(entry)
    return tasks


def check_tasks(path: Path | str, kind: type[Task], most: int = MOST_PROBLEMS) -> list[BadFile]:
    """The first problems of a file, in its order; none when ``read_tasks`` would read it."""
    return list(islice((entry for entry in _read_entries(Path(path), kind) if isinstance(entry, BadFile)), most))


def _read_entries(path: Path, kind: type[T]) -> Iterator[T | BadFile]:
    lines: dict[str, int] = {}
    number = 0
    try:
        for number, line in raw_lines(path):
            yield from _in_line(path, number, line, kind, lines)
    except BadFile as error:
        yield error
        return
    if not number:
        yield BadFile(path, "has no tasks; it must have one JSON object on each line")


def _in_line(path: Path, number: int, line: bytes, kind: type[T], lines: dict[str, int]) -> Iterator[T | BadFile]:
    """``lines``: of each task_id so far."""
    try:
        row = json_value(path, number, line)
    except BadFile as error:
        yield error
        return
    fits = True
    for problem in chain(kind.problems(row), _duplicate(row, number, lines)):
        fits = False
        yield BadFile(path, problem.what, ", ".join(filter(None, (f"line {number}", problem.field))))
    if fits:
        yield kind.from_row(row)


def _duplicate(row: object, number: int, lines: dict[str, int]) -> Iterator[Problem]:
    task_id = row.get("task_id") if isinstance(row, dict) else None
    if not isinstance(task_id, str):
        return
    first = lines.setdefault(task_id, number)
    if first != number:
        yield Problem("field 'task_id'", f"{task_id!r:.80} is the task of line {first} already")
