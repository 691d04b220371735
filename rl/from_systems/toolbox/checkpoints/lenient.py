"""Looks into plain data whose shape nobody promises: what does not fit is empty, and nothing large is written out whole."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from math import isfinite
from typing import Any

_LARGEST = 2**53


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of an object, or the items of a dict or of a subclass of one; empty for anything else."""
    if not isinstance(value, dict):
        return {}
    if isinstance(pairs := value.get("$pairs"), list):
        return {str(scalar(pair[0])): pair[1] for pair in pairs if _is_named(pair)}
    mapping = value.get("$mapping")
    return {**value, **mapping} if isinstance(mapping, dict) else value


def _is_named(pair: Any) -> bool:
    """Text of another key may be endless: it can share lists with itself."""
    return isinstance(pair, list) and len(pair) == 2 and isinstance(scalar(pair[0]), (str, int, float))


def items_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = value.get("$elements")
    return value if isinstance(value, list) else []


def scalar(value: Any) -> Any:
    """A member of an enum is its value, or its name."""
    if isinstance(value, dict):
        if "$value" in value:
            return value["$value"]
        if isinstance(type_name := value.get("$type"), str):
            return type_name.rpartition(".")[2]
    return value


def word(value: Any) -> str:
    """A role or a status, in small letters."""
    text = scalar(value)
    return text.strip().lower() if isinstance(text, str) else ""


def content(value: Any) -> str:
    """The text of a message's content, which is text or a list of parts of which some are text."""
    plain = scalar(value)
    if isinstance(plain, str):
        return plain
    parts = (fields_of(part).get("text") if isinstance(part, dict) else part for part in items_of(plain)[:1000])
    return "\n".join(part for part in parts if isinstance(part, str))


def excerpt(value: Any, limit: int) -> str:
    """At most that many characters: of a text itself, of anything else as JSON, of which no more is written."""
    plain = scalar(value)
    if plain is None:
        return ""
    if isinstance(plain, str):
        return plain[:limit]
    pieces, length = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(plain):
        pieces.append(piece)
        length += len(piece)
        if length > limit:
            break
    return "".join(pieces)[:limit]


def fit(value: Any, limit: int) -> Any:
    """The value where its JSON text has at most that many characters, else the beginning of that text."""
    text = excerpt(value, limit + 1)
    return value if len(text) <= limit else text[:limit]


def number(value: Any) -> float:
    """A count or a sum; 0 for what is none."""
    count = scalar(value)
    if isinstance(count, bool) or not isinstance(count, (int, float)) or not isfinite(count):
        return 0
    return count if 0 <= count <= _LARGEST else 0


def time_text(value: Any) -> str:
    """As the file has it: ISO 8601 text, a date (which is such text here), or seconds since 1970."""
    time = scalar(value)
    if isinstance(time, (int, float)) and number(time):
        try:
            return datetime.fromtimestamp(time, UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            return ""
    return time[:64] if isinstance(time, str) else ""


def moment(text: str) -> datetime | None:
    """In UTC; a time without a zone is taken as UTC."""
    try:
        time = datetime.fromisoformat(text.strip())
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
