"""Prompts from a file, for methods that generate the answers themselves: JSON lines of ``messages`` and whatever rewards
want to know beside them."""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from rl.base.errors import BadFile, UsageError
from rl.base.records import Message
from rl.collect.importers.chat import ROLES
from rl.dataset_builder.read.groups import Tally

ITEM = "item"
"""In the details of a prompt: the fields of its line beside the messages."""


class PromptFile:
    name = "prompts"
    has_ids = False

    def __init__(self, path: str | Path, held_out: str | Path | None = None) -> None:
        """``held_out``: a file of prompts that are not trained on."""
        self._path, self._held_out = Path(path), Path(held_out) if held_out else None

    def fixtures(self) -> dict[str, tuple[str, ...]]:
        return {}

    def groups(self, tally: Tally) -> NoReturn:  # noqa: ARG002  as others of its kind
        raise UsageError("a file of prompts has no answers: it is for methods that generate them")

    def prompts(self) -> Iterator[tuple[bool, list[Message], dict[str, Any]]]:
        """Whether it is held out for certain, messages, and details of each. Raises BadFile."""
        held_out = _lines(self._held_out) if self._held_out else ()
        return chain(((True, *of) for of in held_out), ((False, *of) for of in _lines(self._path)))


def _lines(path: Path) -> Iterator[tuple[list[Message], dict[str, Any]]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _read(path, line, number)


def _read(path: Path, line: str, number: int) -> tuple[list[Message], dict[str, Any]]:
    try:
        row = json.loads(line)
        messages = [Message(role=ROLES[of["role"]], content=of["content"]) for of in row.pop("messages")]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadFile(path, f"has no messages with a role and text: {error}", f"line {number}") from None
    if not messages or not all(isinstance(of["content"], str) for of in messages):
        raise BadFile(path, "has no messages with text", f"line {number}")
    return messages, {ITEM: row}
