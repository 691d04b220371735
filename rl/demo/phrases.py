"""The words of the demo, from ``support_phrases.json``: topics of a support chat, situations people write from, and the
parts of two kinds of answer.

What the simulated raters like: the answer names the next step (a topic's sentence) and says what follows from it. What they
dislike: sympathy and waiting, and nothing that a person could do."""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple


class Topic(NamedTuple):
    noun: str
    """Fits after 'about'."""
    problem: str
    """A clause in the first person, without a full stop."""
    steps: tuple[str, ...]
    """Sentences that each say one concrete thing to do; every one would help."""


_WORDS: dict[str, Any] = json.loads((Path(__file__).parent / "support_phrases.json").read_text(encoding="utf-8"))
TOPICS = tuple(Topic(topic["noun"], topic["problem"], tuple(topic["steps"])) for topic in _WORDS.pop("topics"))
SITUATIONS: tuple[str, ...] = tuple(_WORDS["situations"])
HELPFUL_OPENINGS: tuple[str, ...] = tuple(_WORDS["helpful_openings"])
HELPFUL_ENDINGS: tuple[str, ...] = tuple(_WORDS["helpful_endings"])
EVASIVE_OPENINGS: tuple[str, ...] = tuple(_WORDS["evasive_openings"])
EVASIVE_MIDDLES: tuple[str, ...] = tuple(_WORDS["evasive_middles"])
EVASIVE_ENDINGS: tuple[str, ...] = tuple(_WORDS["evasive_endings"])


def everything() -> Iterator[str]:
    """Every phrase once, with nothing filled in."""
    for topic in TOPICS:
        yield from (topic.noun, topic.problem, *topic.steps)
    for phrase in chain.from_iterable(_WORDS.values()):
        yield phrase.format(noun="", problem="")
