"""What the machine builds where a pickle speaks of classes: inert records that have no behaviour and are never hashed.

Everything else is built as what it is: None, bool, int, float, str, bytes, list, tuple, and instances of ``datetime``,
``date``, ``time``, ``timedelta`` and ``timezone`` that were made from checked numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class Pairs:
    """A dict as the file tells it: no key is hashed, a later one replaces an earlier one when it becomes plain."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Members:
    """A set or frozenset, in the order of the file."""

    items: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Global:
    """The name of something that the file wants imported. Nobody looks for it."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Record:
    """What the file wants made by calling ``class_name``, and what it wants done to it afterwards."""

    class_name: str
    arguments: list[Any] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    """The states that ``__setstate__`` or ``__dict__`` would have got."""
    elements: list[Any] = field(default_factory=list)
    """The elements, where the class is a list."""
    pairs: Pairs = field(default_factory=Pairs)
    """The items, where the class is a dict, and keyword arguments."""
