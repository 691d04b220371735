"""What a source of feedback yields, and the account that is kept while it is read."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from rl.records import DirectPreference, RatedAnswer

# Why a feedback item becomes no part of a pair. What the formatter leaves out has reasons of its own.
NEUTRAL = "rating in the middle of its scale"
TIE = "side-by-side pick: equally good"
BOTH_BAD = "side-by-side pick: both bad"
OTHER_PROMPT = "side-by-side pick of answers to different prompts"
OUTCOME = "outcome: preference training cannot use it"
NO_WIDGET = "answer without a widget choice"
DIRECT = "side-by-side pick or edited answer: only preference pairs use it"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What could have been chosen, sorted."""

    scenarios: tuple[str, ...] = ()
    fixtures: tuple[str, ...] = ()


@dataclass(slots=True)
class PromptGroup:
    """All that is known about the answers to one prompt."""

    prompt_key: str
    answers: list[RatedAnswer] = field(default_factory=list)
    direct: list[DirectPreference] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """The account of one pass."""

    read: int = 0
    """Feedback items."""
    ids: array[int] = field(default_factory=lambda: array("q"))
    """Primary keys of the feedback that was read; empty when it came from files."""
    usable: int = 0
    """Distinct feedback items that took part in a pair."""
    prompts: int = 0
    contradictions: int = 0
    """Answers that some raters liked and others did not."""
    skipped: Counter[str] = field(default_factory=Counter)

    def saw(self, feedback_id: int | None = None) -> None:
        self.read += 1
        if feedback_id is not None:
            self.ids.append(feedback_id)


class Source(Protocol):
    @property
    def name(self) -> str: ...

    def catalogue(self) -> Catalogue: ...

    def groups(self, tally: Tally) -> Iterator[PromptGroup]:
        """Each prompt once; what is read and what is left out goes into the tally."""
        ...
