"""Which ``pattern`` of a JSON schema a server may be given.

llama.cpp makes a grammar of it and follows every way in which a text can be read, for each token that might come next: with
``[a-z]?`` fifty times in a row one token takes minutes, and no other request goes on meanwhile. Here ways are counted from
above: by parts whose length is open, which share the characters of a token among them, and by alternatives."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

LONGEST: Final = 500
"""Characters of a pattern, as it is written and with its repetitions written out."""
MOST_WAYS: Final = 2000
"""At this bound llama.cpp takes 30 ms for a token (of 49,000)."""
_TOKEN: Final = 8
_PIECE: Final = re.compile(
    r"(?P<open>\(\?:|\((?!\?))|(?P<close>\))|(?P<or>\|)"
    r"|(?P<repeat>[*+?]\??|\{(?P<least>\d{1,4})(?P<comma>,?)(?P<most>\d{0,4})\}\??)"
    r"|(?P<one>\\[dwsDWSnrtf]|\\[^a-zA-Z0-9]|\[\^?(?:\\[^bBpPux]|[^\]\\])+\]|[^\\()\[\]{}|*+?^$])",
    re.DOTALL,
)


class NotPassed(ValueError):
    """No grammar can be made of it, or one that leaves too much open."""


@dataclass(slots=True)
class _Part:
    places: int = 0
    """Characters, with repetitions written out."""
    opens: int = 0
    """Parts in it whose length is open."""
    choices: int = 1
    """Ways to choose among its alternatives."""

    def add(self, other: _Part) -> None:
        self.places += other.places
        self.opens += other.opens
        self.choices *= other.choices

    def repeat(self, least: int, most: int | None) -> None:
        """Raises NotPassed where what is repeated leaves something open itself."""
        if (self.opens or self.choices > 1) and (least, most) != (1, 1):
            raise NotPassed
        self.places *= most or least or 1
        self.opens = int(least != most)

    def ways(self) -> int:
        """Through the characters of a token. Raises NotPassed."""
        ways = math.comb(_TOKEN + self.opens, self.opens) * self.choices
        if self.places > LONGEST or ways > MOST_WAYS:
            raise NotPassed
        return ways


def count_ways(pattern: str) -> int:
    """At most so many lead through it. What is not tied to the beginning or the end of a text may stand anywhere in it.
    Raises NotPassed."""
    if len(pattern) > LONGEST:
        raise NotPassed
    is_begun, is_ended = pattern.startswith("^"), bool(re.search(r"(?<!\\)(?:\\\\)*\$\Z", pattern))
    whole = _read(pattern[is_begun : len(pattern) - is_ended])
    whole.opens += 2 - is_begun - is_ended
    return whole.ways()


def _read(text: str) -> _Part:
    groups: list[tuple[_Part, int]] = [(_Part(), 1)]
    last, at = _Part(), 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            raise NotPassed
        at = piece.end()
        inside, alternatives = groups[-1]
        if piece["repeat"]:
            if not last.places:
                raise NotPassed
            last.repeat(*_bounds(piece))
        inside.add(last)
        last = _Part()
        if piece["one"]:
            last = _Part(places=1)
        elif piece["open"]:
            groups.append((_Part(), 1))
        elif piece["or"]:
            groups[-1] = inside, alternatives + 1
        elif piece["close"]:
            if len(groups) == 1:
                raise NotPassed
            groups.pop()
            last = _Part(max(1, inside.places), inside.opens, inside.choices * alternatives)
    whole, alternatives = groups.pop()
    if groups:
        raise NotPassed
    whole.add(last)
    whole.choices *= alternatives
    return whole


def _bounds(piece: re.Match[str]) -> tuple[int, int | None]:
    if piece["least"] is None:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[piece["repeat"][0]]
    least = int(piece["least"])
    return least, int(piece["most"]) if piece["most"] else None if piece["comma"] else least
