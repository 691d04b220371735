"""How many ways a server may have to follow at once through a ``pattern`` of a JSON schema.

llama.cpp makes a grammar of it and follows every way in which a text can be read, for each token that might come next: with
``[a-z]?`` fifty times in a row one token takes minutes, and no other request goes on meanwhile. Here the pattern becomes an
automaton whose states are its characters, and the ways are counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

MOST_PLACES: Final = 500
"""Characters of a pattern, each counted as often as it is repeated."""
MOST_STEPS: Final = 20_000
"""From one character to the next, in all patterns of a request: what keeps the counting itself below a tenth of a second."""
MOST_WAYS: Final = 2000
"""Through as many characters as a token often has. At this bound llama.cpp takes 30 ms for a token (of 49,000)."""
LONGEST: Final = 500
"""Characters of a pattern as it is written."""
_TOKEN: Final = 8
_LAST: Final = 0x10FFFF
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{(\d{1,9})(,?)(\d{0,9})\})\??")
_CLASSES: Final = {"d": [(48, 57)], "w": [(48, 57), (65, 90), (95, 95), (97, 122)], "s": [(9, 13), (32, 32)]}
_CONTROLS: Final = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11}
Ranges = list[tuple[int, int]]


class NotUnderstood(ValueError):
    """It uses what no grammar is made of, such as a look-ahead."""


class TooLoose(ValueError):
    """The text says what is too much of it."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a pattern: a set of characters, or ``kind`` (sequence, choice, repeat) of other parts."""

    kind: str
    parts: tuple[_Part, ...] = ()
    characters: tuple[tuple[int, int], ...] = ()
    least: int = 1
    most: int | None = 1
    """None: without end."""


@dataclass(slots=True)
class Budget:
    """For the patterns of one request."""

    steps: int = MOST_STEPS

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise TooLoose("leaves too much open: parts that may be left out or repeated follow each other")


def count_ways(pattern: str, budget: Budget) -> int:
    """Raises NotUnderstood and TooLoose."""
    if len(pattern) > LONGEST:
        raise TooLoose(f"is longer than {LONGEST} characters")
    return _Automaton(_Reader(pattern).read(), budget).count_ways()


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._text, self._at, self._depth = pattern, 0, 0

    def read(self) -> _Part:
        """What is not tied to the beginning or the end of the text may stand anywhere in it."""
        anything = _Part("repeat", (_characters([(0, _LAST)]),), least=0, most=None)
        parts = [] if self._takes("^") else [anything]
        parts.append(self._choice())
        if self._takes("$"):
            pass
        elif self._at < len(self._text):
            raise NotUnderstood
        else:
            parts.append(anything)
        if self._at < len(self._text):
            raise NotUnderstood
        return _Part("sequence", tuple(parts))

    def _takes(self, words: str) -> bool:
        is_next = self._text.startswith(words, self._at)
        self._at += len(words) if is_next else 0
        return is_next

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise NotUnderstood
        self._at += 1
        return self._text[self._at - 1]

    def _choice(self) -> _Part:
        self._depth += 1
        if self._depth > 50:
            raise TooLoose("is nested deeper than 50 levels")
        ways = [self._sequence()]
        while self._takes("|"):
            ways.append(self._sequence())
        self._depth -= 1
        return ways[0] if len(ways) == 1 else _Part("choice", tuple(ways))

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)$":
            parts.append(self._quantify(self._one()))
        return _Part("sequence", tuple(parts))

    def _quantify(self, part: _Part) -> _Part:
        if not (match := _QUANTIFIER.match(self._text, self._at)):
            return part
        self._at = match.end()
        if match[1] is None:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[match[0][0]]
        else:
            least = int(match[1])
            most = int(match[3]) if match[3] else None if match[2] else least
        return _Part("repeat", (part,), least=least, most=most)

    def _one(self) -> _Part:
        character = self._next()
        if character == "(":
            if self._takes("?") and not self._takes(":"):
                raise NotUnderstood
            inner = self._choice()
            if not self._takes(")"):
                raise NotUnderstood
            return inner
        if character == "[":
            return self._set()
        if character in "^*+?{":
            raise NotUnderstood
        if character == ".":
            return _characters([(0, 9), (11, _LAST)])
        return _characters(self._escape() if character == "\\" else [(ord(character),) * 2])

    def _set(self) -> _Part:
        negated, ranges = self._takes("^"), []
        while (character := self._next()) != "]":
            first = self._escape() if character == "\\" else [(ord(character),) * 2]
            if self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._next()
                character = self._next()
                last = self._escape() if character == "\\" else [(ord(character),) * 2]
                first = [(first[0][0], last[-1][1])]
            ranges += first
        return _characters(_without(ranges) if negated else ranges)

    def _escape(self) -> Ranges:
        character = self._next()
        if character.lower() in _CLASSES:
            ranges = _CLASSES[character.lower()]
            return ranges if character.islower() else _without(ranges)
        if character in "xu":
            digits = "".join(self._next() for _ in range(2 if character == "x" else 4))
            if not re.fullmatch("[0-9a-fA-F]+", digits):
                raise NotUnderstood
            return [(int(digits, 16),) * 2]
        if character.isalnum() and character not in _CONTROLS:
            raise NotUnderstood
        return [(_CONTROLS.get(character, ord(character)),) * 2]


def _characters(ranges: Ranges) -> _Part:
    return _Part("characters", characters=tuple(ranges))


def _without(ranges: Ranges) -> Ranges:
    rest, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            rest.append((start, low - 1))
        start = max(start, high + 1)
    return [*rest, (start, _LAST)] if start <= _LAST else rest


@dataclass(slots=True)
class _Ends:
    """Where a part may begin and end."""

    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    may_be_empty: bool = True


class _Automaton:
    """Its states are the places of the pattern, each a set of characters."""

    def __init__(self, part: _Part, budget: Budget) -> None:
        self._sets: list[Sequence[tuple[int, int]]] = []
        self._next: list[set[int]] = []
        self._budget = budget
        self._first = self._build(part).first

    def _build(self, part: _Part) -> _Ends:
        self._budget.spend(1)
        if part.kind == "characters":
            if len(self._sets) == MOST_PLACES:
                raise TooLoose(f"has more than {MOST_PLACES} characters, each counted as often as it may be repeated")
            self._sets.append(part.characters)
            self._next.append(set())
            return _Ends([len(self._sets) - 1], [len(self._sets) - 1], may_be_empty=False)
        if part.kind == "choice":
            ways = [self._build(way) for way in part.parts]
            return _Ends(
                [state for way in ways for state in way.first],
                [state for way in ways for state in way.last],
                any(way.may_be_empty for way in ways),
            )
        if part.kind == "repeat":
            return self._unfold(part)
        return self._in_a_row(self._build(inner) for inner in part.parts)

    def _unfold(self, part: _Part) -> _Ends:
        """``x{2,4}`` is ``xx(x(x)?)?``."""
        inner, rest = part.parts[0], _Ends()
        if part.least > MOST_PLACES or (part.most or 0) > MOST_PLACES:
            raise TooLoose(f"repeats a part more than {MOST_PLACES} times")
        if part.most is None:
            rest = self._build(inner)
            self._connect(rest.last, rest.first)
            rest.may_be_empty = True
        for _ in range((part.most or part.least) - part.least):
            rest = self._in_a_row([self._build(inner), rest])
            rest.may_be_empty = True
        return self._in_a_row([*(self._build(inner) for _ in range(part.least)), rest])

    def _in_a_row(self, parts: Iterable[_Ends]) -> _Ends:
        whole = _Ends()
        for part in parts:
            self._connect(whole.last, part.first)
            whole = _Ends(
                whole.first + part.first if whole.may_be_empty else whole.first,
                whole.last + part.last if part.may_be_empty else part.last,
                whole.may_be_empty and part.may_be_empty,
            )
        return whole

    def _connect(self, before: Iterable[int], after: Sequence[int]) -> None:
        for state in before:
            self._budget.spend(len(after))
            self._next[state].update(after)

    def count_ways(self) -> int:
        """Through the characters of a token, from where there are most. Each step takes the character that leaves most."""
        kinds = self._kinds()
        ways, most = [1] * len(self._sets), 1
        for _ in range(_TOKEN):
            most = max(most, _most(self._first, kinds, ways), *ways)
            ways = [_most(following, kinds, ways) for following in self._next]
        return most

    def _kinds(self) -> list[list[int]]:
        """For each place the kinds of characters that it takes; two characters are of one kind where no set tells them
        apart."""
        bounds = sorted({bound for ranges in self._sets for low, high in ranges for bound in (low, high + 1)})
        number = {bound: at for at, bound in enumerate(bounds)}
        kinds = [
            sorted({k for low, high in ranges for k in range(number[low], number[high + 1])}) for ranges in self._sets
        ]
        self._budget.spend(sum(len(kinds[state]) for following in self._next for state in following))
        return kinds


def _most(following: Iterable[int], kinds: list[list[int]], ways: list[int]) -> int:
    counts: Counter[int] = Counter()
    for state in following:
        for kind in kinds[state]:
            counts[kind] += ways[state]
    most = max(counts.values(), default=0)
    if most > MOST_WAYS:
        raise TooLoose(
            f"can be read in more than {MOST_WAYS} ways: write it so that each character has one place in it"
        )
    return most
