"""What a JSON column can hold, in SQLite and PostgreSQL alike.

PostgreSQL refuses NUL characters and half surrogate pairs; SQLite stores them, and every later page that shows them fails.
"""

from __future__ import annotations

import math
import re

DEEPEST = 64
"""Levels of lists and objects within each other."""
_POISON = re.compile("[\x00\ud800-\udfff]")


def unstorable(value: object) -> str:
    """Why a value parsed from JSON cannot be stored; empty when it can. Looks at every key and value, at any depth."""
    level = [value]
    for _ in range(DEEPEST + 1):
        for one in level:
            if problem := _problem(one):
                return problem
        level = [inner for one in level if isinstance(one, (list, dict)) for inner in _contents(one)]
        if not level:
            return ""
    return f"nested deeper than {DEEPEST} levels"


def _contents(value: list[object] | dict[str, object]) -> list[object]:
    return value if isinstance(value, list) else [*value, *value.values()]


def _problem(value: object) -> str:
    if isinstance(value, str):
        if found := _POISON.search(value):
            return "contains a NUL character" if found[0] == "\x00" else "contains half of a surrogate pair"
    elif isinstance(value, float):
        if not math.isfinite(value):
            return "contains a number that is not finite"
    elif isinstance(value, int) and abs(value) > 2**63 - 1:
        return "contains a whole number of more than 64 bits"
    return ""
