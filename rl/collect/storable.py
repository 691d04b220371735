"""What a JSON column can hold, in SQLite and PostgreSQL alike.

PostgreSQL refuses NUL characters and half surrogate pairs; SQLite stores them, and every later page that shows them fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from math import isfinite

DEEPEST = 64
"""Levels of lists and objects within each other."""
LARGEST = 2**63 - 1
_POISON = re.compile("[\x00\ud800-\udfff]")


def unstorable(value: object) -> str:
    """Why a value parsed from JSON cannot be stored; empty when it can. Looks at every key and value, at any depth."""
    level = [value]
    for _ in range(DEEPEST + 1):
        if problem := _problem(level):
            return problem
        lists = [one for one in level if isinstance(one, list)]
        objects = [one for one in level if isinstance(one, dict)]
        if not lists and not objects:
            return ""
        level = list(chain(*lists, *objects, *(one.values() for one in objects)))
    return f"is nested deeper than {DEEPEST} levels"


def place_of_unstorable(value: object) -> str:
    """The JSON pointer of what ``unstorable`` complains of; of a name, that of its object. Empty for the value itself."""
    level = [("", value)]
    for _ in range(DEEPEST + 1):
        for pointer, one in level:
            if _problem([one, *one] if isinstance(one, dict) else [one]):
                return pointer
        level = [inside for pointer, one in level for inside in _named_contents(pointer, one)]
    return ""


def _named_contents(pointer: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from ((f"{pointer}/{name}", inside) for name, inside in value.items())
    elif isinstance(value, list):
        yield from ((f"{pointer}/{number}", inside) for number, inside in enumerate(value))


def _problem(values: Sequence[object]) -> str:
    """Of these values, not of what is inside them."""
    if found := _POISON.search("".join([one for one in values if isinstance(one, str)])):
        return "contains a NUL character" if found[0] == "\x00" else "contains half of a surrogate pair"
    if not all(map(isfinite, [one for one in values if isinstance(one, float)])):
        return "contains a number that is too large or none at all"
    whole = [one for one in values if isinstance(one, int)]
    if whole and not -LARGEST - 1 <= min(whole) <= max(whole) <= LARGEST:
        return "contains a whole number of more than 64 bits"
    return ""
