"""What a source of feedback yields, and the account that is kept while it is read."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from rl.base.records import DirectPreference, Message, RatedAnswer
from rl.models import prompt_key

# Why a feedback item becomes no part of a row. What the formatter leaves out has reasons of its own.
NEUTRAL = "rating in the middle of its scale"
TIE = "side-by-side pick: equally good"
BOTH_BAD = "side-by-side pick: both bad"
NO_WORDS = "prompt without words"
OTHER_PROMPT = "side-by-side pick of answers to different prompts"
OUTCOME = "outcome: preference training cannot use it"
DIRECT = "side-by-side pick or edited answer: only preference pairs use it"


@dataclass(slots=True)
class PromptGroup:
    prompt_key: str
    answers: list[RatedAnswer] = field(default_factory=list)
    direct: list[DirectPreference] = field(default_factory=list)

    _split_key: str = ""

    @property
    def prompt(self) -> tuple[Message, ...]:
        """Empty where nothing is known about an answer."""
        return self.answers[0].prompt if self.answers else self.direct[0].prompt if self.direct else ()

    @property
    def split_key(self) -> str:
        """What the split hashes: the words of the prompt, so that one question under two keys stays on one side. Asked for
        when the answers are in."""
        if not self._split_key:
            self._split_key = prompt_key(self.prompt) if self.prompt else self.prompt_key
        return self._split_key


@dataclass(slots=True)
class PromptRows:
    """Rows of one prompt, on one side of the split."""

    held_out: bool
    rows: list[dict[str, Any]]
    trace_ids: Set[str] = frozenset()
    """Ids of the stored answers whose text is in a row."""


@dataclass(slots=True)
class Tally:
    read: int = 0
    """Feedback items."""
    ids: array[int] = field(default_factory=lambda: array("q"))
    """Primary keys of the feedback that was read; empty when it came from files."""
    usable: int = 0
    """Distinct feedback items that took part in a row."""
    prompts_read: int = 0
    prompts: int = 0
    """Those that gave a row."""
    disputed: int = 0
    """Answers that some raters liked and others did not."""
    skipped: Counter[str] = field(default_factory=Counter)
    taken: Counter[str] = field(default_factory=Counter)
    """What was in dispute and is evidence all the same, by reason."""
    details: dict[str, Any] = field(default_factory=dict)
    """What else is to be known about the set later; JSON."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "ratings_read": self.read,
            "ratings_usable": self.usable,
            "prompts_read": self.prompts_read,
            "prompts": self.prompts,
            "disputed_answers": self.disputed,
            "skipped": dict(self.skipped.most_common()),
            "taken": dict(self.taken.most_common()),
            **self.details,
        }

    def saw(self, feedback_id: int | None = None) -> None:
        self.read += 1
        if feedback_id is not None:
            self.ids.append(feedback_id)


def by_scenario(widgets: Iterable[tuple[object, object]]) -> dict[str, tuple[str, ...]]:
    """``widgets``: scenario and fixture, both of which may be anything."""
    fixtures: defaultdict[str, set[str]] = defaultdict(set)
    for scenario, fixture in widgets:
        if scenario and isinstance(scenario, str):
            fixtures[scenario].update([fixture] if fixture and isinstance(fixture, str) else [])
    return {scenario: tuple(sorted(names)) for scenario, names in sorted(fixtures.items())}


class Source(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def has_ids(self) -> bool:
        """Whether the ``feedback_ids`` of its answers are primary keys; else they are numbers to tell ratings apart."""
        ...

    def fixtures(self) -> Mapping[str, tuple[str, ...]]:
        """The widgets that could have been chosen, each to the ways in which it could have been drawn, sorted."""
        ...

    def groups(self, tally: Tally) -> Iterator[PromptGroup]:
        """Each prompt once, prompts in other words under one key apart. What is read and what is left out goes into the
        tally."""
        ...
