"""Which answer of a closed set a text asks for, by the corrected texts that read like it. No model is asked.

Texts are compared by the cosine of their runs of 3 to 5 characters within words, weighed by how rare a run is, which works
in any language that has words, and for words that are bent or mistyped. An answer's support is 3 times the root of the sum
of the squared likenesses of its texts, in the scale of log probabilities, and far more where a text is nearly the same.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

WEIGHT: Final = 3.0
NEARLY: Final = 0.7
"""Likeness from which on a text counts as nearly the same."""
NEARLY_WEIGHT: Final = 30.0
FEWEST_TEXTS: Final = 6
"""Texts that tell which of their runs say something, and which are the same in all of them. With fewer, the sentences with
which two texts begin alike are left out, and only much in common counts."""
NEARLY_WITH_FEW: Final = 0.4
WEIGHT_WITH_FEW: Final = 8.0
MOST: Final = 500
"""The newest are remembered."""
LONGEST: Final = 2000
"""Characters of a text that are read, from its end, where most prompts have what differs."""
_RUNS: Final = (3, 4, 5)
_SENTENCE: Final = re.compile(r"[^.:!?\n]*[.:!?\n]+\s*|[^.:!?\n]+\Z")
_WORD: Final = re.compile(r"\w+")
Vector = Mapping[str, float]


class Remembered:
    """Corrected texts and their answers, with others that only tell what is usual."""

    def __init__(self, answered: Sequence[tuple[str, str]], others: Iterable[str] = ()) -> None:
        """``answered``: texts with their answers, the newest first."""
        self._answered = answered[:MOST]
        kept = [_runs(text) for text, _ in self._answered]
        background = [*kept, *map(_runs, others)]
        self._texts = len(background)
        self._with = Counter(run for runs in background for run in runs)
        self._numbers: dict[str, list[tuple[int, float]]] = defaultdict(list)
        """By run: the texts that have it, with its share of their length."""
        for number, runs in enumerate(kept):
            for run, share in self._vector(runs).items():
                self._numbers[run].append((number, share))

    def __len__(self) -> int:
        return len(self._answered)

    def support(self, text: str, *, of_others: bool = False) -> dict[str, float]:
        """Answer to its support, of those that have any. ``of_others``: as if the text itself had never been corrected."""
        if self._texts < FEWEST_TEXTS:
            return self._compare_few(text, of_others)
        likeness: dict[int, float] = defaultdict(float)
        for run, share in self._vector(_runs(text)).items():
            for number, other in self._numbers.get(run, ()):
                likeness[number] += share * other
        by_answer: dict[str, list[float]] = defaultdict(list)
        for number, value in likeness.items():
            corrected, answer = self._answered[number]
            if not (of_others and corrected == text):
                by_answer[answer].append(value)
        return {answer: _weigh(values) for answer, values in by_answer.items()}

    def _compare_few(self, text: str, of_others: bool) -> dict[str, float]:
        support: dict[str, float] = {}
        for other, answer in self._answered:
            if (likeness := _likeness(text, other)) >= NEARLY_WITH_FEW and not (of_others and other == text):
                support[answer] = max(support.get(answer, 0.0), WEIGHT_WITH_FEW * likeness)
        return support

    def _vector(self, runs: Iterable[str]) -> dict[str, float]:
        """Has the length 1; empty where no run says anything."""
        rare = {run: math.log((self._texts + 1) / (self._with[run] + 1)) for run in runs}
        length = math.sqrt(sum(value * value for value in rare.values()))
        return {run: value / length for run, value in rare.items() if value > 0} if length else {}


def _weigh(likenesses: Sequence[float]) -> float:
    whole = math.sqrt(sum(value * value for value in likenesses))
    return WEIGHT * whole + NEARLY_WEIGHT * max(0.0, max(likenesses) - NEARLY)


def _likeness(text: str, other: str) -> float:
    """The cosine of two texts without the sentences that both begin with; 1 for the same text."""
    if text == other:
        return 1.0
    sentences = [_SENTENCE.findall(whole[-LONGEST:]) for whole in (text, other)]
    alike = next((at for at, (first, second) in enumerate(zip(*sentences, strict=False)) if first != second), 0)
    runs, others = (_runs("".join(rest[alike:])) for rest in sentences)
    return len(runs & others) / math.sqrt(len(runs) * len(others)) if runs and others else 0.0


def _runs(text: str) -> set[str]:
    words = (f"<{word}>" for word in _WORD.findall(text[-LONGEST:].casefold()))
    return {word[at : at + size] for word in words for size in _RUNS for at in range(len(word) - size + 1)}
