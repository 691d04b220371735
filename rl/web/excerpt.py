"""As much of a text, a value or a list as a person reads, a browser can lay out and a page can afford."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar

STEPS = 100
"""How many messages, tool calls, steps and tasks are shown, unless somebody asks for all."""
CHARACTERS = 10_000
"""Characters of one text that are shown. A browser takes seconds to lay out a megabyte."""
MOST_ITEMS, MOST_CHARACTERS = 2_000, 500_000
"""What a page shows in lists and in texts, all of them together."""
WHOLE_ITEMS, WHOLE_CHARACTERS = 10_000, 20_000_000
"""The same where somebody asks for all: what is stored may be more than a page can be."""
JSON_PIECES = 300_000
"""Names, values and brackets of all values that a page writes as JSON, which takes a second for a million."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, indent=2)

T = TypeVar("T")


class Excerpt:
    """Cuts what is too long to read, and knows whether it has cut anything."""

    def __init__(self, whole: bool = False, most_characters: int = MOST_CHARACTERS) -> None:
        self.whole, self.cut, self._pieces = whole, False, JSON_PIECES
        self._items = WHOLE_ITEMS if whole else MOST_ITEMS
        self._characters = WHOLE_CHARACTERS if whole else most_characters

    def text(self, text: str) -> str:
        most = self._most_characters
        over = len(text) - most
        self._characters -= min(len(text), most)
        if over <= 0:
            return text
        self.cut = True
        return f"{text[:most]}… ({over:,} more characters)"

    def first(self, items: Iterable[T]) -> list[T]:
        return self._some(list(items), slice(self._most_items))

    def last(self, items: Iterable[T]) -> list[T]:
        items = list(items)
        return self._some(items, slice(max(0, len(items) - self._most_items), None))

    def value(self, value: Any) -> str:
        """JSON, or the text that it is; empty for nothing."""
        if value in (None, "", {}):
            return ""
        return self.text(value if isinstance(value, str) else self._json(value))

    @property
    def _most_items(self) -> int:
        return self._items if self.whole else min(STEPS, self._items)

    @property
    def _most_characters(self) -> int:
        return self._characters if self.whole else min(CHARACTERS, self._characters)

    def _some(self, items: list[T], which: slice) -> list[T]:
        shown = items[which]
        self._items -= len(shown)
        self.cut = self.cut or len(shown) < len(items)
        return shown

    def _json(self, value: Any) -> str:
        """No more of it is written than is shown."""
        pieces, most = [], self._most_characters
        for piece in _ENCODER.iterencode(value):
            pieces.append(piece)
            most -= len(piece)
            self._pieces -= 1
            if most < 0 or self._pieces < 0:
                self.cut = True
                return "".join(pieces)[: self._most_characters - 1] + "…"
        return "".join(pieces)
