"""Single attributes, read leniently: one of another type is as good as missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rl.collect.limits import MAX_WHOLE_NUMBER

LONGEST_KEPT = 1_000
MOST_KEPT = 100
LONGEST_RESULT = 20_000
"""Characters of a tool's arguments or result, as JSON."""
_CUT = " … (cut)"


def text(attributes: Mapping[str, Any], *names: str) -> str:
    """The first of the attributes that is text."""
    return next((value for name in names if isinstance(value := attributes.get(name), str) and value), "")


def count(attributes: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_WHOLE_NUMBER:
            return value
    return None


def number(attributes: Mapping[str, Any], name: str) -> float | None:
    value = attributes.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None


def fit(value: Any, longest: int = LONGEST_RESULT) -> Any:
    """The value, or the beginning of its text where that is too long."""
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(written) <= longest else written[:longest] + _CUT


def remaining_attributes(attributes: Mapping[str, Any], without: tuple[str, ...]) -> dict[str, Any]:
    """Attributes for the record, but those whose names start with one of ``without``: they are stored elsewhere."""
    rest = [(name, value) for name, value in attributes.items() if not name.startswith(without)]
    return {name[:200]: fit(value, LONGEST_KEPT) for name, value in rest[:MOST_KEPT]}
