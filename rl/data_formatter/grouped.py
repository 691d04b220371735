"""Answers in the same words merged, and groups of rewarded answers to one prompt, for GRPO.

GRPO learns from how much better than its group an answer is. A group whose rewards are all equal teaches nothing, so it is
left out; answers with the same text are one answer with the mean of their rewards."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from statistics import fmean
from typing import Any

from rl.base.records import JudgedAnswer
from rl.data_formatter.labelled import feedback_behind_reward
from rl.data_formatter.opinions import BROKEN_OFF, DUPLICATE, OVER_LIMIT, stable_hash
from rl.data_formatter.runs import answer_key, answer_messages, prompt_messages, tools_column
from rl.data_formatter.scored import DIGITS, usable_reward

_JOINED = ("trace_ids", "ratings", "in_reward", "outcomes", "preferences", "corrections")


def merge_same_texts(answers: Iterable[JudgedAnswer], skipped: Counter[str]) -> Iterator[JudgedAnswer]:
    """``answers`` come with equal texts to one prompt key side by side. The reward is the mean, a model's label the
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
    same: defaultdict[tuple[str, str], list[JudgedAnswer]] = defaultdict(list)
    for answer in answers:  # an importer's own key may stand for prompts in other words
        same[answer.split_key, answer_key(answer.response, answer.steps)].append(answer)
    for group in same.values():
        if len(group) > 1:
            skipped[DUPLICATE] += len(group) - 1
        yield _join(group)


def _join(answers: list[JudgedAnswer]) -> JudgedAnswer:
    joined: dict[str, Any] = {name: tuple(chain(*(getattr(answer, name) for answer in answers))) for name in _JOINED}
    joined["corrections"] = tuple(dict.fromkeys(joined["corrections"]))
    rewards = [answer.reward for answer in answers if answer.reward is not None]
    return replace(
        answers[0],
        **joined,
        proposed=_surest(answer.proposed for answer in answers),
        heard=_surest(answer.heard for answer in answers),
        reward=round(fmean(rewards), DIGITS) if rewards else None,
        is_broken_off=all(answer.is_broken_off for answer in answers),
    )


def _surest(labels: Iterable[tuple[bool, float] | None]) -> tuple[bool, float] | None:
    return max(filter(None, labels), key=lambda label: label[1], default=None)


ONE_ANSWER = "only one answer with a reward"
EQUAL_REWARDS = "all answers have the same reward"
MOST_ANSWERS = 64
"""In one group; more would make a row of any size, and add little to the mean and the spread."""


@dataclass(slots=True)
class _Text:
    """All that was answered in the same words."""

    answer: JudgedAnswer
    rewards: list[float] = field(default_factory=list)
    trace_ids: list[str] = field(default_factory=list)
    feedback_ids: list[int] = field(default_factory=list)

    @property
    def reward(self) -> float:
        return round(sum(self.rewards) / len(self.rewards), DIGITS)


@dataclass(frozen=True, slots=True)
class GroupRow:
    row: dict[str, Any]
    trace_ids: frozenset[str]


class RewardGroup:
    """Takes the answers to one prompt one by one; a small multiple of MOST_ANSWERS of them is held in memory.

    Of more texts, those with the smallest hash are kept: a choice that knows neither time nor reward."""

    def __init__(self, skipped: Counter[str]) -> None:
        self._skipped = skipped
        self._texts: dict[str, _Text] = {}

    def take(self, answer: JudgedAnswer) -> None:
        reward = usable_reward(answer, self._skipped)
        if reward is None:
            return
        if answer.is_broken_off:  # among worse ones it would be the one to imitate
            self._skipped[BROKEN_OFF] += 1
            return
        key = answer_key(answer.response, answer.steps)
        if key in self._texts:
            self._skipped[DUPLICATE] += 1
        text = self._texts.setdefault(key, _Text(answer))
        text.rewards.append(reward)
        text.trace_ids += answer.trace_ids
        text.feedback_ids += feedback_behind_reward(answer)
        if len(self._texts) >= 4 * MOST_ANSWERS:
            self._trim()

    def finish(self) -> GroupRow | None:
        """None: the group teaches nothing, and the reason is counted."""
        self._trim()
        kept = [self._texts[key] for key in sorted(self._texts, key=stable_hash)]
        if len({text.reward for text in kept}) < 2:
            if kept:
                self._skipped[ONE_ANSWER if len(kept) == 1 else EQUAL_REWARDS] += 1
            return None
        first = kept[0].answer
        return GroupRow(
            {
                "prompt": prompt_messages(first.prompt),
                "completions": [answer_messages(text.answer.response, text.answer.steps) for text in kept],
                "rewards": [text.reward for text in kept],
                **tools_column(first.tools),
                "prompt_key": first.prompt_key,
                "feedback": sorted(number for text in kept for number in text.feedback_ids),
                "split_key": first.split_key,
            },
            frozenset(number for text in kept for number in text.trace_ids),
        )

    def _trim(self) -> None:
        """A text that stays in the end was never dropped before: what comes only lowers the largest hash that is kept."""
        for key in sorted(self._texts, key=stable_hash)[MOST_ANSWERS:]:
            del self._texts[key]
            self._skipped[OVER_LIMIT] += 1
