"""The kind of the answers that people accept, and classes of a closed set that have few: told from the newest feedback,
without building rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.db.models import Q

from rl.data_formatter.answer_kinds import FIRST, AnswerKind, find_kind, normalise
from rl.dataset_builder.plan.figures import RATINGS
from rl.models import Agent, Feedback

ENOUGH: Final = 10
"""Accepted answers of a class from which on further ones are not asked for."""
NAMED: Final = 8
"""Classes, those with the fewest answers first."""
_KIND, _CHOICE = Feedback.Kind, Feedback.Choice
_ACCEPTS: Final = (
    Q(kind=_KIND.CORRECTION)
    | Q(kind=_KIND.RATING, value__gt=0.5)
    | Q(kind=_KIND.COMPARISON, choice__in=(_CHOICE.LEFT, _CHOICE.RIGHT))
)
_READ: Final = ("kind", "choice", "text", "trace__prompt_key", "trace__response", "other_trace__response")


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
    texts = accepted_texts(agent)
    kind = find_kind(texts, agent.answer_kind)
    if kind.kind != "closed":
        return AcceptedPlan(kind, len(texts))
    count = Counter(map(normalise, texts))
    rare = sorted((number, name) for name, number in count.items() if number < ENOUGH)
    named = tuple(Rare(name, number) for number, name in rare[:NAMED])
    return AcceptedPlan(kind, len(texts), named, len(rare) - len(named))


def accepted_texts(agent: Agent) -> list[str]:
    """Edited, liked and preferred answers, each once to a prompt."""
    newest = Feedback.objects.filter(agent=agent, is_current=True).order_by("-created_at", "id").values("pk")[:RATINGS]
    events = Feedback.objects.filter(_ACCEPTS, pk__in=newest).order_by("-created_at", "id")
    accepted = dict.fromkeys(
        (key, _accepted_text(kind, choice, text, response, other).strip())
        for kind, choice, text, key, response, other in events.values_list(*_READ)[:FIRST]
    )
    return [text for _, text in accepted if text]


def _accepted_text(kind: str, choice: str, text: str, response: str, other: str | None) -> str:
    if kind == _KIND.CORRECTION:
        return text
    return (other or "") if choice == _CHOICE.RIGHT else response
