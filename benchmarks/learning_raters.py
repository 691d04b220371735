"""Simulated raters with a hidden taste: what they like, and the picks and thumbs that they give.

A taste is a number for an answer, the larger the better; the raters see answers and never the number. Five tastes of
different kinds, so that a method that only knows how to make answers shorter is found out. ``concrete`` was written with the
others and not run before everything else was finished.
"""

import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Final

from rl.data_formatter.degeneration import is_broken

ANSWERS: Final = Path(__file__).with_name("learning_answers.jsonl")
LABELLED: Final = 64
"""Prompts whose answers may be rated; the others are asked at the end."""
RATERS: Final = 20
Taste = Callable[[str], float]


def brief(text: str) -> float:
    return -math.log(len(text.split()) + 5)


def plain(text: str) -> float:
    """Short words."""
    words = re.findall(r"[A-Za-z']+", text)
    return -fmean(map(len, words)) if words else -12.0


def personal(text: str) -> float:
    """Speaks to the reader: the share of you and your, of imperatives at the beginning of a sentence too."""
    words = re.findall(r"[a-z']+", text.lower())
    addressed = sum(word in {"you", "your", "you're", "you'll", "yourself"} for word in words)
    orders = len(
        re.findall(
            r"(?:^|[.!?:*]\s+)(?:use|try|start|make|take|keep|put|add|choose|avoid|find|wash|place)\b", text, re.I
        )
    )
    return (addressed + 2 * orders) / (len(words) + 10)


def orderly(text: str) -> float:
    """Steps and lists, and paragraphs of their own."""
    marks = len(re.findall(r"(?:^|\s)(?:\d+\.|[-*•])\s", text)) + text.count("\n") / 2
    order = len(re.findall(r"\b(?:first|second|third|then|next|finally|step)\b", text, re.I))
    return math.log1p(2 * marks + order) - 0.004 * len(text.split())


def concrete(text: str) -> float:
    """Examples, numbers and names of things instead of what is important and essential."""
    examples = len(re.findall(r"\b(?:for example|such as|like|including|e\.g\.)|\d", text, re.I))
    vague = len(
        re.findall(
            r"\b(?:essential|important|various|variety|overall|crucial|significant|help|ensure|unique)\w*", text, re.I
        )
    )
    return (examples - vague) / (len(text.split()) + 10)


TASTES: Final[dict[str, Taste]] = {
    "brief": brief,
    "plain": plain,
    "personal": personal,
    "orderly": orderly,
    "concrete": concrete,
}


@dataclass(frozen=True, slots=True)
class Label:
    """A pick of two answers, or a thumb on one."""

    prompt: str
    answer: str
    """The picked one, or the one with the thumb."""
    other: str | None
    """The one that was not picked."""
    up: bool
    rater: int


def read_answers(path: Path = ANSWERS) -> dict[str, list[str]]:
    answers: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        answers.setdefault(row["prompt"], []).append(row["answer"])
    return answers


def labels(
    taste: Taste, answers: Mapping[str, Sequence[str]], budget: int, seed: int, noise: float, bad: float
) -> list[Label]:
    """Half picks and half thumbs of different answers. ``noise``: share of labels that are turned round; ``bad``: share of
    raters all of whose labels are."""
    rng = random.Random(f"{seed}")
    line = median(taste(text) for texts in answers.values() for text in texts)
    inverted = rng.sample(range(RATERS), round(bad * RATERS))
    pairs = [(prompt, *pair) for prompt, texts in answers.items() for pair in combinations(texts, 2)]
    singles = [(prompt, text) for prompt, texts in answers.items() for text in texts]
    pairs = [pair for pair in pairs if taste(pair[1]) != taste(pair[2])]
    rng.shuffle(pairs)
    rng.shuffle(singles)
    given = list(_picks(taste, pairs[: budget // 2], rng, noise, inverted))
    given += _thumbs(taste, line, singles[: budget - budget // 2], rng, noise, inverted)
    return given


def _picks(
    taste: Taste, pairs: Sequence[tuple[str, str, str]], rng: random.Random, noise: float, inverted: Sequence[int]
) -> Iterator[Label]:
    for prompt, first, second in pairs:
        rater = rng.randrange(RATERS)
        better = (taste(first) > taste(second)) != _turned(rng, noise, rater in inverted)
        yield Label(prompt, first if better else second, second if better else first, True, rater)


def _thumbs(
    taste: Taste,
    line: float,
    singles: Sequence[tuple[str, str]],
    rng: random.Random,
    noise: float,
    inverted: Sequence[int],
) -> Iterator[Label]:
    for prompt, text in singles:
        rater = rng.randrange(RATERS)
        yield Label(prompt, text, None, (taste(text) > line) != _turned(rng, noise, rater in inverted), rater)


def _turned(rng: random.Random, noise: float, inverted: bool) -> bool:
    return (rng.random() < noise) != inverted


def win_rate(taste: Taste, new: Sequence[str], old: Sequence[str]) -> float:
    """How often the taste prefers the new answer; a tie is half a win. A broken answer loses to one that is not, and where
    both are broken neither wins."""
    return fmean(_win(taste, a, b) for a, b in zip(new, old, strict=True))


def _win(taste: Taste, new: str, old: str) -> float:
    if is_broken(new) or is_broken(old):
        return (1 + is_broken(old) - is_broken(new)) / 2
    return (taste(new) > taste(old)) + 0.5 * (taste(new) == taste(old))
