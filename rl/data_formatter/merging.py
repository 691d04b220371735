"""Answers to one prompt that say and do the same are one answer: what is known of them adds up, as it does for pairs and
groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from statistics import fmean

from rl.base.ratings import AnswerRating
from rl.base.records import JudgedAnswer
from rl.data_formatter.opinions import DUPLICATE
from rl.data_formatter.runs import answer_key
from rl.data_formatter.scored import DIGITS


@dataclass(slots=True)
class _Same:
    first: JudgedAnswer
    trace_ids: list[str] = field(default_factory=list)
    ratings: list[AnswerRating] = field(default_factory=list)
    in_reward: list[int] = field(default_factory=list)
    outcomes: list[int] = field(default_factory=list)
    preferences: list[int] = field(default_factory=list)
    corrections: list[str] = field(default_factory=list)
    proposed: list[tuple[bool, float]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    is_broken_off: bool = True

    def add(self, answer: JudgedAnswer) -> None:
        self.is_broken_off &= answer.is_broken_off
        self.trace_ids += answer.trace_ids
        self.ratings += answer.ratings
        self.in_reward += answer.in_reward
        self.outcomes += answer.outcomes
        self.preferences += answer.preferences
        self.corrections += answer.corrections
        self.proposed += [answer.proposed] if answer.proposed else []
        self.rewards += [] if answer.reward is None else [answer.reward]

    def answer(self) -> JudgedAnswer:
        return replace(
            self.first,
            trace_ids=tuple(self.trace_ids),
            ratings=tuple(self.ratings),
            in_reward=tuple(self.in_reward),
            outcomes=tuple(self.outcomes),
            preferences=tuple(self.preferences),
            corrections=tuple(dict.fromkeys(self.corrections)),
            proposed=max(self.proposed, key=lambda label: label[1], default=None),
            reward=round(fmean(self.rewards), DIGITS) if self.rewards else None,
            is_broken_off=self.is_broken_off,
        )


def merge_same_texts(answers: Iterable[JudgedAnswer], skipped: Counter[str]) -> Iterator[JudgedAnswer]:
    """``answers`` come with equal texts to one prompt key side by side. The reward is the mean, the proposed label the
    surest. Answers without text are not compared."""
    for (_, text), group in groupby(answers, key=lambda answer: (answer.prompt_key, answer.response.strip())):
        answers_left = iter(group)
        first, second = next(answers_left), next(answers_left, None)
        if second is None:  # nearly always
            yield first
        else:
            same_texts = chain((first, second), answers_left)
            yield from _merge(same_texts, skipped) if text else same_texts


def _merge(answers: Iterable[JudgedAnswer], skipped: Counter[str]) -> Iterator[JudgedAnswer]:
    same: dict[tuple[str, str], _Same] = {}  # an importer's own key may stand for prompts in other words
    for answer in answers:
        key = (answer.split_key, answer_key(answer.response, answer.steps))
        if key in same:
            skipped[DUPLICATE] += 1
        same.setdefault(key, _Same(answer)).add(answer)
    yield from (group.answer() for group in same.values())
