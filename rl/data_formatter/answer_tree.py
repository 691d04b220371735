"""The places at which the answers of a closed set part, token by token, and how one of them is chosen.

At each place the options are compared by their log probabilities, less what they have whatever is asked, and with the
support of remembered answers; the best is taken, and so on to the end. How much the model counts beside what is remembered
is fitted to accepted answers: its scores say little of a language or a job that it hardly knows. Only places where answers
part cost a look at the model: what is the same in all of them says nothing."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


WEIGHT: Final = 3.0
NEARLY: Final = 0.7
"""Likeness from which on a text counts as nearly the same."""
NEARLY_WEIGHT: Final = 30.0
ALIKE: Final = 0.15
"""Likeness from which on a text counts more that the model has not learned; measured in docs/gateway.md."""
UNLEARNED_WEIGHT: Final = 10.0
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


class Remembered:
    """Corrected texts and their answers, with others that only tell what is usual: which answer a text asks for. No model
    is asked.

    Texts are compared by the cosine of their runs of 3 to 5 characters within words, weighed by how rare a run is, which
    works in any language that has words, and for words that are bent or mistyped. An answer's support is 3 times the root
    of the sum of the squared likenesses of its texts, in the scale of log probabilities, and far more where a text is
    nearly the same."""

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

    def support(self, text: str, *, of_others: bool = False, unlearned: int = 0) -> dict[str, float]:
        """Answer to its support, of those that have any. ``of_others``: as if the text itself had never been corrected;
        ``unlearned``: how many of the newest the model that is asked has not been trained on."""
        if self._texts < FEWEST_TEXTS:
            return self._compare_few(text, of_others)
        likeness: dict[int, float] = defaultdict(float)
        for run, share in self._vector(_runs(text)).items():
            for number, other in self._numbers.get(run, ()):
                likeness[number] += share * other
        by_answer: dict[str, list[float]] = defaultdict(list)
        news: dict[str, float] = defaultdict(float)
        for number, value in likeness.items():
            corrected, answer = self._answered[number]
            if not (of_others and corrected == text):
                by_answer[answer].append(value)
                if number < unlearned:
                    news[answer] = max(news[answer], UNLEARNED_WEIGHT * (value - ALIKE))
        return {answer: _weigh(values) + news[answer] for answer, values in by_answer.items()}

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
