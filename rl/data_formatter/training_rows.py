"""Rows of training sets, as the trainers and the evaluation read them: one JSON object to a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rl.base.errors import BadFile, UsageError
from rl.data_formatter.jsonl import json_lines


def read_training_rows(path: Path, method: str = "dpo") -> Iterator[dict[str, Any]]:
    """Raises BadFile that names the line and the field, UsageError that lists the known methods."""
    if method not in COLUMNS:
        raise UsageError(f"no rows are known for method {method!r}; known: {', '.join(COLUMNS)}")
    columns = {"prompt": (_is_messages, MESSAGES), **COLUMNS[method]}
    for number, row in json_lines(path):
        for name, (is_right, what) in columns.items():
            if not isinstance(row, dict) or not is_right(row.get(name)):
                raise BadFile(path, f"{name} must be {what}", f"line {number}")
        yield row


def _is_messages(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_message(message) for message in value)


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and isinstance(value.get("content"), str)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list_of(is_right: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(is_right, value))


MESSAGES: Final = "a list of messages"
_PAIR: Final = {"chosen": (_is_messages, MESSAGES), "rejected": (_is_messages, MESSAGES)}
COLUMNS: Final[Mapping[str, Mapping[str, tuple[Callable[[object], bool], str]]]] = {
    "dpo": _PAIR,
    "reward_model": _PAIR,
    "kto": {
        "completion": (_is_messages, MESSAGES),
        "label": (lambda value: isinstance(value, bool), "true or false"),
    },
    "grpo": {
        "completions": (_is_list_of(_is_messages), "a list of lists of messages"),
        "rewards": (_is_list_of(_is_number), "a list of numbers"),
    },
    "reward": {"completion": (_is_messages, MESSAGES), "reward": (_is_number, "a number")},
    "agent": {"task": (lambda value: isinstance(value, dict), "an object")},
    "prompts": {"details": (lambda value: isinstance(value, dict), "an object")},
}
"""Beside ``prompt``."""
