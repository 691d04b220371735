"""What a JSON column can hold, in SQLite and PostgreSQL alike.

PostgreSQL refuses NUL characters and half surrogate pairs; SQLite stores them, and every later page that shows them fails.
"""

import re
from collections.abc import Iterable, Sequence
from math import isfinite

DEEPEST = 64
"""Levels of lists and objects within each other."""
LARGEST = 2**63 - 1
POISON = re.compile("[\x00\ud800-\udfff]")


def unstorable(value: object) -> str:
    """Why a value parsed from JSON cannot be stored; empty when it can. Looks at every key and value, at any depth."""
    if isinstance(value, str):
        return _problem(value)
    level: Sequence[object] = [value]
    for _ in range(DEEPEST + 1):
        deeper: list[object] | None = None
        for element in level:
            if isinstance(element, str):  # nearly all are plain, and need no search
                problem = "" if element.isascii() and "\x00" not in element else _problem(element)
            elif isinstance(element, (dict, list, tuple)):
                deeper = [] if deeper is None else deeper
                deeper += element
                deeper += element.values() if isinstance(element, dict) else ()
                continue
            else:
                problem = "" if element is None else _problem(element)
            if problem:
                return problem
        if deeper is None:
            return ""
        level = deeper
    return f"is nested deeper than {DEEPEST} levels"


def pointer_to_unstorable(value: object) -> str:
    """The JSON pointer of what ``unstorable`` complains of; for a key, that of its object. Empty for the whole value."""
    level: list[tuple[str, object]] = [("", value)]
    for _ in range(DEEPEST + 1):
        deeper: list[tuple[str, object]] = []
        for pointer, container in level:
            if isinstance(container, dict) and any(map(_problem, container)):
                return pointer
            for name, inner in _children(container):
                if _problem(inner):
                    return f"{pointer}/{name}"
                if isinstance(inner, (list, dict)):
                    deeper.append((f"{pointer}/{name}", inner))
        level = deeper
    return ""


def _children(value: object) -> Iterable[tuple[object, object]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _problem(value: object) -> str:
    if isinstance(value, str):
        if match := POISON.search(value):
            return "contains a NUL character" if match[0] == "\x00" else "contains half of a surrogate pair"
    elif isinstance(value, float):
        if not isfinite(value):
            return "contains a number that is not finite"
    elif isinstance(value, int) and not -LARGEST - 1 <= value <= LARGEST:
        return "contains a whole number of more than 64 bits"
    return ""
