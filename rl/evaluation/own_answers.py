"""Prompts with their right answers from a file of one's own, in the place of held-out rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile
from rl.data_formatter.jsonl import json_lines
from rl.data_formatter.runs import messages_of
from rl.evaluation.held_out import HeldOut
from rl.evaluation.own_pairs import as_messages, without_learned
from rl.models import ModelVersion, prompt_key

EXPECTED = "expected"
"""In the details of a row: the right answer, an object."""


def has_answers(path: Path) -> bool:
    """Whether the first line has a completion, and is not a pair. Raises BadFile."""
    _, first = next(json_lines(path), (0, None))
    return isinstance(first, Mapping) and "completion" in first and "chosen" not in first


def read_answers(path: Path, *compared: ModelVersion | None) -> HeldOut:
    """JSON lines with ``prompt``, a text, also with marks of who speaks, or a list of messages, and ``completion``, a JSON
    object or its text; ``reward``, a number, is kept, and other fields are ignored. Prompts that one of the versions has
    learned from are left out. Raises BadFile that names the line and the field."""
    return without_learned(list(_rows(path)), *compared)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for number, value in json_lines(path):
        where = f"line {number}"
        if not isinstance(value, dict):
            raise BadFile(path, "a line must be one JSON object", where)
        prompt = value.get("prompt")
        messages = messages_of(prompt) if isinstance(prompt, str) and prompt else as_messages(prompt, "user")
        if not messages:
            raise BadFile(path, "prompt must be a text or a list of messages", where)
        expected = _object(value.get("completion"))
        if expected is None:
            raise BadFile(path, "completion must be a JSON object, or its text", where)
        yield {
            "prompt": messages,
            "prompt_key": prompt_key(messages),
            "details": {EXPECTED: expected},
            "reward": _number(path, where, value.get("reward")),
        }


def _object(completion: object) -> dict[str, Any] | None:
    if isinstance(completion, str):
        try:
            completion = json.loads(completion)
        except (ValueError, RecursionError):
            return None
    return completion if isinstance(completion, dict) and completion else None


def _number(path: Path, where: str, value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise BadFile(path, "reward must be a number", where)
    return float(value)
