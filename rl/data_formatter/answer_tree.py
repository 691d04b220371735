"""The places at which the answers of a closed set part, token by token, and how one of them is chosen.

At each place the options are compared by their log probabilities, less what they have whatever is asked, and with the
support of remembered answers; the best is taken, and so on to the end. Only places where answers part cost a look at the
model: what is the same in all of them says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

Tokens = tuple[int, ...]
END: Final = -1
"""The option that the answer ends here, where another one goes on."""
Scores = Mapping[int, float]
"""Log probability of each option."""


@dataclass(frozen=True, slots=True)
class Parting:
    prefix: Tokens
    """What the answers have in common up to here."""
    options: Mapping[int, tuple[str, ...]]
    """The next token, or END, to the answers that it leads to."""


@dataclass(slots=True)
class AnswerTree:
    tokens: Mapping[str, Tokens]
    """By answer. Of answers with the same tokens, which cannot be told apart, the first one is kept."""
    _partings: dict[Tokens, Parting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first: dict[Tokens, str] = {}
        for answer, tokens in self.tokens.items():
            first.setdefault(tokens, answer)
        self.tokens = {answer: tokens for tokens, answer in first.items()}

    def parting(self, answers: tuple[str, ...], depth: int = 0) -> Parting:
        """Where two or more answers part, which have their first ``depth`` tokens in common."""
        first = self.tokens[answers[0]]
        while all(self.tokens[answer][: depth + 1] == first[: depth + 1] for answer in answers) and depth < len(first):
            depth += 1
        if first[:depth] not in self._partings:
            options: dict[int, tuple[str, ...]] = {}
            for answer in answers:
                rest = self.tokens[answer][depth:]
                option = rest[0] if rest else END
                options[option] = (*options.get(option, ()), answer)
            self._partings[first[:depth]] = Parting(first[:depth], options)
        return self._partings[first[:depth]]

    def partings(self) -> Iterator[Parting]:
        """All of them, the first one first."""
        waiting = [tuple(self.tokens)]
        while waiting:
            parting = self.parting(waiting.pop(0))
            yield parting
            waiting.extend(answers for answers in parting.options.values() if len(answers) > 1)


def choose_option(parting: Parting, scores: Scores, means: Scores, support: Mapping[str, float]) -> dict[int, float]:
    """The probability of each option, the likeliest first. ``means``: of the scores whatever is asked, or empty;
    ``support``: of answers, in the scale of log probabilities."""
    levels = {
        option: scores[option] - means.get(option, 0.0) + max(support.get(answer, 0.0) for answer in answers)
        for option, answers in parting.options.items()
    }
    top = max(levels.values())
    shares = {option: math.exp(level - top) for option, level in levels.items()}
    total = sum(shares.values())
    return dict(sorted(((option, share / total) for option, share in shares.items()), key=lambda item: -item[1]))
