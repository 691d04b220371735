"""Bounds of a closed set of answers."""

from __future__ import annotations

from typing import Final

from rl.base.errors import UsageError

MOST: Final = 100
LONGEST: Final = 200
"""Characters of an answer."""


def check_answer_values(value: object) -> None:
    """Raises UsageError."""
    if not isinstance(value, list) or len(value) > MOST or not all(map(_is_answer, value)):
        raise UsageError(f"must be a JSON list of at most {MOST} texts of 1 to {LONGEST} characters")
    if len({answer.casefold() for answer in value}) < len(value):
        raise UsageError("has an answer twice")


def _is_answer(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) == len(value) <= LONGEST
