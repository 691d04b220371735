"""Who compares fresh answers: a judge that has learned from people's labels, or a model on a server that the operator
registered. Both are checked on people's labels in the same way.

- ``servers``: the operator's JUDGES_FILE
- ``asking``: what a model on a server is asked, and what its reply means"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rl.base.records import Message

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Duel:
    """Two answers to a prompt."""

    prompt: Sequence[Message]
    prompt_key: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Judged:
    """Each number is how likely people prefer the first answer, 0 to 1."""

    checks: list[tuple[str, float]]
    """The prompt's key, and the better answer of a contrast, as people say, against the worse one."""
    duels: list[float]
    opinions: int
    """That the judge has learned from."""


@dataclass(frozen=True, slots=True)
class Judge:
    name: str
    """In a sentence: compared by …"""
    compare: Callable[[Sequence[Row], Sequence[Row], Sequence[Duel]], Judged | None]
    """Gets rows with labels to learn from, contrasts to be checked on, and duels. None where that is too little; raises
    JudgeFailed."""
