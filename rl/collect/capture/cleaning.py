"""Anything that an agent passes around, as JSON that every database can store, cut to a size.

It runs on the agent's thread, because the agent may change a value after the call, so the work is bounded: so many
characters, so many items, so many levels, whatever the value is."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from math import isfinite
from typing import Any, cast

from rl.base.messages import Message
from rl.collect.capture.troubles import Troubles
from rl.collect.limits import MAX_WHOLE_NUMBER
from rl.collect.storable import LARGEST, POISON

Redact = Callable[[str, Any], Any]
"""``redact(name, value)``: what is recorded in place of a text or number; ``name`` is the key, argument or field that
holds it. Keys themselves come with the name ``key``."""

TEXT, ARGUMENT, TOOL_RESULT, REASONING, TASK, NAME = 100_000, 2_000, 2_000, 1_000, 500, 200
"""Characters that are kept of each kind of value."""
MARGIN = 10_000
"""Characters beyond the cut that ``redact`` sees: a secret that the cut would halve is still recognised."""
MOST_ITEMS, DEEPEST = 500, 16
MOST_CHARACTERS = 20_000
"""Most characters of one value, all its texts together."""
CUT = "…"
REDACTION_FAILED = "[not recorded: redact failed]"


class Cleaner:
    def __init__(self, redact: Redact | None, troubles: Troubles) -> None:
        self._redact = redact
        self._troubles = troubles

    def text(self, value: object, limit: int, name: str) -> str:
        if value is None:
            return ""
        if not issubclass(type(value), str):  # isinstance asks the object, too
            value = _to_json(self.value(value, limit, name))
            return value[:limit]
        return self._text(cast(str, value), limit, name)

    def messages(self, messages: Iterable[Mapping[str, Any]], name: str) -> list[Message]:
        """Chat messages with nothing but ``role`` and ``content``."""
        return [
            Message(role=str(message["role"]), content=self.text(message["content"], TEXT, name))
            for message in messages
        ]

    def value(self, value: object, limit: int, name: str) -> Any:
        """JSON: texts in it are cut to ``limit``; what is not JSON becomes its repr."""
        try:
            return _Walk(self, limit).json(value, name, 0)
        except Exception:  # noqa: BLE001  an object that cannot even be asked what it is
            return self._text(safe_repr(value), limit, name)

    def fit(self, value: object, limit: int, name: str) -> Any:
        """As ``value``; but what is longer than ``limit`` as JSON text becomes that text, cut."""
        cleaned = self.value(value, limit, name)
        if isinstance(cleaned, (dict, list)):
            dumped = _to_json(cleaned)
            return cleaned if len(dumped) <= limit else dumped[:limit]
        return cleaned

    def scalar(self, value: Any, limit: int, name: str) -> Any:
        if isinstance(value, str):
            return self._text(value, limit, name)
        return _number(value if self._redact is None else self._redact_value(name, value), limit)

    def _text(self, value: str, limit: int, name: str) -> str:
        # By str's own method: a subclass may do anything in its slices.
        plain = str.__getitem__(value, slice(0, limit + MARGIN))
        if self._redact is not None:
            plain = str(self._redact_value(name, plain))
        return POISON.sub("\ufffd", plain[:limit])

    def _redact_value(self, name: str, value: Any) -> Any:
        try:
            return self._redact(name, value) if self._redact else value
        except Exception as error:  # noqa: BLE001  somebody's function
            self._troubles.log_failure("redact", error)
            return REDACTION_FAILED


class _Walk:
    """One value, within its budget."""

    def __init__(self, cleaner: Cleaner, limit: int) -> None:
        self.cleaner, self.limit = cleaner, limit
        self.items, self.characters = MOST_ITEMS, MOST_CHARACTERS

    def json(self, value: Any, name: str, depth: int) -> Any:
        self.items -= 1
        if self.items < 0 or self.characters <= 0 or depth > DEEPEST:
            return CUT
        if value is None:
            return None
        if isinstance(value, (str, bool, int, float)):
            return self._count_characters(self.cleaner.scalar(value, min(self.limit, self.characters), name))
        if isinstance(value, (dict, list, tuple, set, frozenset)):
            with suppress(Exception):  # another thread changes it at this moment, or its class lists its items wrongly
                return self._container(value, name, depth)
        return self._count_characters(self.cleaner.text(safe_repr(value), min(self.limit, self.characters), name))

    def _container(self, value: Any, name: str, depth: int) -> Any:
        most = max(self.items, 0) + 1  # the one too many becomes a mark that there were more
        if isinstance(value, dict):
            pairs = islice(value.items(), most)
            return {
                self._key(key): self.json(inner, key if isinstance(key, str) else "", depth + 1) for key, inner in pairs
            }
        return [self.json(inner, name, depth + 1) for inner in islice(value, most)]

    def _key(self, key: object) -> str:
        text = key if isinstance(key, str) else safe_repr(key)
        return str(self._count_characters(self.cleaner.text(text, NAME, "key")))

    def _count_characters(self, cleaned: Any) -> Any:
        if isinstance(cleaned, str):
            self.characters -= len(cleaned)
        return cleaned


def safe_repr(value: object) -> str:
    """Its repr, whatever its author wrote there."""
    try:
        return repr(value[:ARGUMENT] if isinstance(value, (bytes, bytearray)) else value)
    except Exception:  # noqa: BLE001  somebody's repr
        return f"<{type(value).__name__} without repr>"


def finite(value: object) -> float | None:
    """None for what is not a number that JSON has."""
    is_number = isinstance(value, (int, float)) and abs(value) < LARGEST  # false for NaN, too
    return float(value) if is_number else None  # type: ignore[arg-type]


def whole(value: object) -> int:
    """A count as the database holds it: 0 to 2³¹ - 1."""
    return min(max(int(finite(value) or 0), 0), MAX_WHOLE_NUMBER)


def _number(value: Any, limit: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -LARGEST - 1 <= value <= LARGEST:
        return int(value)
    if isinstance(value, float) and isfinite(value):
        return float(value)
    text = hex(value) if isinstance(value, int) else str(value)
    return POISON.sub("\ufffd", text[:limit])


def _to_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def describe_error(error: object) -> str:
    """An exception with its type; anything else as text."""
    if not isinstance(error, BaseException):
        return "" if error is None else str(error)
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  somebody's str
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
