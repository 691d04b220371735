"""Files of tasks: JSON lines, blank ones skipped, or a JSON list (``.json``). One pass finds tasks and every problem."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from rl.base.errors import BadFile
from rl.base.outside_files import read_bytes
from rl.data_formatter.jsonl import json_value, raw_lines
from rl.environments.tasks.fields import Problem, json_kind
from rl.environments.tasks.records import Task

MOST_PROBLEMS = 20
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


def check_tasks(path: Path | str, kind: type[Task], most: int = MOST_PROBLEMS) -> list[BadFile]:
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
        where = f"line {number}"
        try:
            row = json_value(path, number, line)
        except BadFile as error:
            yield where, error
        else:
            yield where, row


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
    fits = True
    for problem in chain(kind.problems(row), _duplicate(row, where, seen)):
        fits = False
        yield BadFile(path, problem.what, ", ".join(filter(None, (where, problem.field))))
    if fits:
        yield kind.from_row(row)


def _duplicate(row: object, where: str, seen: dict[str, str]) -> Iterator[Problem]:
    task_id = row.get("task_id") if isinstance(row, dict) else None
    if not isinstance(task_id, str):
        return
    first = seen.setdefault(task_id, where)
    if first != where:
        yield Problem("field 'task_id'", f"{task_id!r:.80} is the task of {first} already")
