"""Rows of training sets, as the trainers and the evaluation read them: one JSON object to a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rl.base.errors import BadFile
from rl.base.messages import requested_calls
from rl.config.methods import Column, Rows, find_rows
from rl.data_formatter.jsonl import is_tools, json_lines


def read_training_rows(path: Path, method: str = "dpo") -> Iterator[dict[str, Any]]:
    """Raises BadFile that names the line and the field, UsageError that lists the known methods."""
    kind = find_rows(method)
    for number, value in json_lines(path):
        row = value if isinstance(value, dict) else {}
        for name, column in {"prompt": Column.MESSAGES, **kind.columns_of(row)}.items():
            if not _is_right(row, name, column, kind):
                or_null = " or null" if name in kind.optional else ""
                raise BadFile(path, f"{name} must be {column}{or_null}", f"line {number}")
        if kind.optional and not any(row[name] for name in kind.optional):
            raise BadFile(path, f"{' and '.join(sorted(kind.optional))} are all null", f"line {number}")
        if not is_tools(row.get("tools", [])):
            raise BadFile(path, "tools must be a list of tools, each an object with a function", f"line {number}")
        yield row


def _is_right(row: Mapping[str, Any], name: str, column: Column, kind: Rows) -> bool:
    if name in kind.optional and name in row and row[name] is None:
        return True
    return _IS_RIGHT[column](row.get(name))


def _is_messages(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_message(message) for message in value)


def _is_message(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        return False
    return isinstance(value.get("content"), str) and _has_readable_calls(value)


def _has_readable_calls(message: Mapping[str, Any]) -> bool:
    try:
        return requested_calls(message) is not None
    except ValueError:
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_score(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def _is_list_of(is_right: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(is_right, value))


_IS_RIGHT: Final[Mapping[Column, Callable[[object], bool]]] = {
    Column.MESSAGES: _is_messages,
    Column.ANSWERS: _is_list_of(_is_messages),
    Column.FLAG: lambda value: isinstance(value, bool),
    Column.NUMBER: _is_number,
    Column.SCORE: _is_score,
    Column.NUMBERS: _is_list_of(_is_number),
    Column.OBJECT: lambda value: isinstance(value, dict),
}
