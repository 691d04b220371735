"""As much of a text, a value or a list as a person reads and a browser can lay out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar

STEPS = 100
"""How many messages, tool calls, steps and tasks are shown, unless somebody asks for all."""
CHARACTERS = 10_000
"""Characters of one text that are shown. A browser takes seconds to lay out a megabyte."""

T = TypeVar("T")


class Excerpt:
    """Cuts what is too long to read, and knows whether it has cut anything."""

    def __init__(self, whole: bool) -> None:
        self.whole, self.cut = whole, False

    def text(self, text: str) -> str:
        over = len(text) - CHARACTERS
        if self.whole or over <= 0:
            return text
        self.cut = True
        return f"{text[:CHARACTERS]}… ({over:,} more characters)"

    def first(self, items: Iterable[T]) -> list[T]:
        return self._some(list(items), slice(STEPS))

    def last(self, items: Iterable[T]) -> list[T]:
        return self._some(list(items), slice(-STEPS, None))

    def value(self, value: Any) -> str:
        """JSON, or the text that it is; empty for nothing."""
        return self.text(readable(value)) if value not in (None, "", {}) else ""

    def _some(self, items: list[T], which: slice) -> list[T]:
        if self.whole or len(items) <= STEPS:
            return items
        self.cut = True
        return items[which]


def readable(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
