"""Rows of training sets as what a judge learns from: answers, and what people think of them."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl.base.messages import in_words
from rl.base.records import Message, Vote
from rl.data_formatter.opinions import stable_hash

MOST_ROWS = 600
"""That a judge learns from: half a forward pass of each answer takes a tenth of a second where two old cores compute it."""
FOLDS = 5
LEAST_RATERS = 3
"""Before any is doubted: where two disagree nobody can tell who is turned round."""
Row = Mapping[str, Any]
Conversation = tuple[Sequence[Message], str]
"""A prompt and an answer to it."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What somebody thinks of one answer, or of two of them; the numbers are rows of the features."""

    answer: int
    other: int | None = None
    """The answer that is worse; None where ``value`` stands alone."""
    value: float = 1.0
    """0 bad to 1 good, without another answer."""
    weight: float = 1.0
    prompt: str = ""
    """Opinions on one prompt are drawn together."""
    votes: tuple[Vote, ...] = ()
    """By those whose ratings it was made of; empty where nobody knows."""


@dataclass(slots=True)
class Answers:
    """Answers without repetition; their places are the rows of the features."""

    conversations: list[Conversation] = field(default_factory=list)
    _places: dict[tuple[tuple[str, ...], str], int] = field(default_factory=dict)

    def add(self, prompt: Iterable[Message], text: str) -> int:
        """The place of the answer, which may be there already."""
        messages = list(prompt)
        key = (tuple(message["role"] + "\0" + in_words(message) for message in messages), text)
        if key not in self._places:
            self._places[key] = len(self.conversations)
            self.conversations.append((messages, text))
        return self._places[key]


def sample_rows(rows: Iterable[Row]) -> list[Row]:
    """At most MOST_ROWS, by a hash of their prompts: those of a prompt stay together."""
    return heapq.nsmallest(MOST_ROWS, rows, key=lambda row: stable_hash("sample " + row["prompt_key"]))


def opinions_of(rows: Iterable[Row], answers: Answers) -> list[Opinion]:
    """Their answers are added. Rows of prompts alone and of tasks hold no opinion."""
    return [opinion for row in rows for opinion in _of_row(row, answers)]


def _of_row(row: Row, answers: Answers) -> Iterator[Opinion]:
    prompt, key = row["prompt"], row["prompt_key"]

    def opinion(answer: Any, other: Any = None, value: float = 1.0) -> Opinion:
        numbers = (answers.add(prompt, text_of(answer)), None if other is None else answers.add(prompt, text_of(other)))
        return Opinion(*numbers, value, row.get("weight", 1.0), key, votes_of(row))

    chosen, rejected = row.get("chosen"), row.get("rejected")
    if chosen and rejected:
        yield opinion(chosen, rejected)
    elif chosen or rejected:
        yield opinion(chosen or rejected, value=float(bool(chosen)))
    elif "completions" in row:
        rewards = row["rewards"]
        best, worst = (row["completions"][rewards.index(extreme(rewards))] for extreme in (max, min))
        if max(rewards) > min(rewards):
            yield opinion(best, worst)
    elif "completion" in row:
        yield opinion(row["completion"], value=float(row["score"] if "score" in row else row["label"]))


def votes_of(row: Row) -> tuple[Vote, ...]:
    return tuple(Vote(*vote) for vote in row.get("votes", ()))


def fold_of(prompt: str) -> int:
    """0 to FOLDS - 1, by a hash of the prompt's key."""
    return stable_hash("fold " + prompt) % FOLDS


def text_of(answer: Iterable[Message]) -> str:
    """The words of an answer's messages, with the tool calls among them."""
    return "\n".join(map(in_words, answer))
