"""Labelled answers for KTO: single answers that are good or bad, without a counterpart.

Whoever knows best decides: people, else a label that a model proposed and that is sure enough, else the reward.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from rl.base.records import JudgedAnswer
from rl.data_formatter.opinions import BROKEN_OFF, EMPTY_ANSWER, LOW_CONFIDENCE
from rl.data_formatter.runs import answer_messages, prompt_messages, tools_column

NEUTRAL = "mean rating in the middle of the scale"
NO_LABEL = "neither rated nor rewarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRule:
    reward_threshold: float = 0.6
    """The least reward of a good answer."""
    proposal_threshold: float | None = None
    """The least confidence of a proposed label that counts; None: none counts."""
    min_confidence: float = 0.5
    """How far people's mean rating must be from the other end of the scale, 0.5 to 1."""


@dataclass(frozen=True, slots=True)
class Label:
    good: bool
    source: Literal["person", "proposed", "reward"]
    certainty: float
    """How far it is from the line between good and bad, as a share of the way to the end of the scale, 0 to 1."""
    feedback_ids: tuple[int, ...] = ()
    """That it rests on."""


def label_of(answer: JudgedAnswer, rule: LabelRule, skipped: Counter[str]) -> Label | None:
    """None where nothing tells; the reason is counted.

    A mean rating in the middle of the scale says nothing, whether everybody was undecided or people disagree evenly. Nor
    does a reward that only repeats it.
    """
    values = [rating.value for rating in answer.ratings]
    if values and (mean := fmean(values)) != 0.5:
        return _by_people(answer, mean, rule, skipped)
    if answer.proposed and is_sure(answer.proposed[1], rule):
        return Label(answer.proposed[0], "proposed", 2 * answer.proposed[1] - 1)
    if answer.reward is not None and not (values and answer.reward == 0.5):
        return _by_reward(answer, answer.reward, rule.reward_threshold)
    skipped[NEUTRAL if values else NO_LABEL] += 1
    return None


def usable_label(answer: JudgedAnswer, rule: LabelRule, skipped: Counter[str]) -> Label | None:
    """As ``label_of``; None for an empty answer too, and for a good one that is broken off."""
    if not answer.response.strip():
        skipped[EMPTY_ANSWER] += 1
        return None
    label = label_of(answer, rule, skipped)
    if label and label.good and answer.is_broken_off:
        skipped[BROKEN_OFF] += 1
        return None
    return label


def labelled_row(answer: JudgedAnswer, rule: LabelRule, skipped: Counter[str]) -> dict[str, Any] | None:
    """TRL's conversational unpaired preference format, and where the label came from. None: left out, counted."""
    label = usable_label(answer, rule, skipped)
    if label is None:
        return None
    return row_of(answer, label, {"completion": answer_messages(answer.response, answer.steps), "label": label.good})


def row_of(answer: JudgedAnswer, label: Label, columns: Mapping[str, Any]) -> dict[str, Any]:
    """``columns``: what the method learns from."""
    return {
        "prompt": prompt_messages(answer.prompt),
        **columns,
        **tools_column(answer.tools),
        "label_source": label.source,
        "prompt_key": answer.prompt_key,
        "feedback": sorted(label.feedback_ids),
        "split_key": answer.split_key,
    }


def feedback_behind_reward(answer: JudgedAnswer) -> tuple[int, ...]:
    """What a reward looks at: ratings and outcomes."""
    return (*(rating.feedback_id for rating in answer.ratings), *answer.outcomes)


def _by_people(answer: JudgedAnswer, mean: float, rule: LabelRule, skipped: Counter[str]) -> Label | None:
    if max(mean, 1 - mean) < rule.min_confidence:
        skipped[LOW_CONFIDENCE] += 1
        return None
    return Label(mean > 0.5, "person", abs(2 * mean - 1), tuple(rating.feedback_id for rating in answer.ratings))


def _by_reward(answer: JudgedAnswer, reward: float, threshold: float) -> Label:
    good = reward >= threshold
    reach = 1 - threshold if good else threshold
    certainty = abs(reward - threshold) / reach if reach > 0 else 1.0
    return Label(good, "reward", certainty, feedback_behind_reward(answer))


def is_sure(confidence: float, rule: LabelRule) -> bool:
    return rule.proposal_threshold is not None and confidence >= rule.proposal_threshold
