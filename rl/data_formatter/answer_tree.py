"""The places at which the answers of a closed set part, token by token, and how one of them is chosen.

At each place the options are compared by their log probabilities, less what they have whatever is asked, and with the
support of remembered answers; the best is taken, and so on to the end. How much the model counts beside what is remembered
is fitted to accepted answers: its scores say little of a language or a job that it hardly knows. Only places where answers
part cost a look at the model: what is the same in all of them says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

Tokens = tuple[int, ...]
END: Final = -1
"""The option that the answer ends here, where another one goes on."""
Scores = Mapping[int, float]
"""Log probability of each option."""
TRUSTS: Final = (1.0, 0.75, 0.5, 0.3, 0.15)
FEWEST_FITTED: Final = 8


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


def choose_option(
    parting: Parting, scores: Scores, means: Scores, support: Mapping[str, float], trust: float = 1.0
) -> dict[int, float]:
    """The probability of each option, the likeliest first. ``means``: of the scores whatever is asked, or empty;
    ``support``: of answers, in the scale of log probabilities; ``trust``: what the model's scores count beside it."""
    levels = {
        option: trust * (scores[option] - means.get(option, 0.0)) + max(support.get(answer, 0.0) for answer in answers)
        for option, answers in parting.options.items()
    }
    top = max(levels.values())
    shares = {option: math.exp(level - top) for option, level in levels.items()}
    total = sum(shares.values())
    return dict(sorted(((option, share / total) for option, share in shares.items()), key=lambda item: -item[1]))


def fit_trust(parting: Parting, past: Sequence[tuple[Scores, Mapping[str, float], str]], means: Scores) -> float:
    """The trust under which accepted answers are likeliest; 1 for fewer than FEWEST_FITTED. ``past``: of questions the
    scores, the support of others that read like it, and the accepted answer."""
    option_of = {answer: option for option, answers in parting.options.items() for answer in answers}
    known = [(scores, support, option_of[answer]) for scores, support, answer in past if answer in option_of]
    if len(known) < FEWEST_FITTED:
        return 1.0

    def likelihood(trust: float) -> float:
        shares = (choose_option(parting, scores, means, support, trust)[option] for scores, support, option in known)
        return sum(math.log(max(share, 1e-12)) for share in shares)

    return max(TRUSTS, key=likelihood)
