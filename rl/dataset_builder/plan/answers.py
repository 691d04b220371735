"""The kind of the answers that people accept, and classes of a closed set that have few: told from the newest feedback,
without building rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rl.collect.feedback.judged_answers import read_accepted
from rl.data_formatter.answer_kinds import FIRST, AnswerKind, find_kind, normalise
from rl.dataset_builder.plan.figures import RATINGS
from rl.models import Agent

ENOUGH: Final = 10
"""Accepted answers of a class from which on further ones are not asked for."""
NAMED: Final = 8
"""Classes, those with the fewest answers first."""


class Rare(NamedTuple):
    name: str
    accepted: int

    def __str__(self) -> str:
        return f"{self.accepted} of `{self.name}`: {ENOUGH - self.accepted} more would help"


@dataclass(frozen=True, slots=True)
class AcceptedPlan:
    kind: AnswerKind
    accepted: int
    """Answers that were looked at."""
    rare: tuple[Rare, ...] = ()
    """Classes with fewer than ENOUGH accepted answers, at most NAMED of them."""
    unnamed: int = 0
    """Further ones."""

    @property
    def sentences(self) -> list[str]:
        """For people: the kind and why it is that; each rare class. Empty where nothing was accepted."""
        if not self.accepted:
            return []
        further = [f"{self.unnamed} more classes with fewer than {ENOUGH}"] if self.unnamed else []
        return [f"answers are {self.kind.kind}: {self.kind.reason}", *map(str, self.rare), *further]

    def as_dict(self) -> dict[str, Any]:
        rare = [{"name": rare.name, "accepted": rare.accepted, "missing": ENOUGH - rare.accepted} for rare in self.rare]
        kind = {"kind": self.kind.kind, "reason": self.kind.reason, "accepted": self.accepted}
        return {**kind, "rare": rare, "unnamed": self.unnamed}


def accepted_plan(agent: Agent) -> AcceptedPlan:
    """One query, of the newest RATINGS events; about what a run finds in its rows."""
    texts = [accepted.answer for accepted in read_accepted(agent, FIRST, RATINGS)]
    kind = find_kind(texts, agent.answer_kind)
    if kind.kind != "closed":
        return AcceptedPlan(kind, len(texts))
    count = Counter(map(normalise, texts))
    rare = sorted((number, name) for name, number in count.items() if number < ENOUGH)
    named = tuple(Rare(name, number) for number, name in rare[:NAMED])
    return AcceptedPlan(kind, len(texts), named, len(rare) - len(named))
