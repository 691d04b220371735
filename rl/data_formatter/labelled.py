"""Labelled answers for KTO, good or bad without a counterpart, and with pairs for mixed preference optimisation, by weight.

Whoever knows best decides: people, else a label that a model proposed and that is sure enough, else the reward; and where
rows have weights, what a model heard in the next message of the user, before nothing at all."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from rl.base.records import JudgedAnswer, PreferencePair, Vote
from rl.data_formatter.jsonl import training_row
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
    follow_up_weight: float = 0.0
    """What a label heard in a next message weighs at most; 0: none counts."""
    min_confidence: float = 0.5
    """How far people's mean rating must be from the other end of the scale, 0.5 to 1."""


@dataclass(frozen=True, slots=True)
class Label:
    good: bool
    source: Literal["person", "proposed", "follow_up", "reward"]
    certainty: float
    """How far it is from the line between good and bad, as a share of the way to the end of the scale, 0 to 1."""
    feedback_ids: tuple[int, ...] = ()
    """That it rests on."""


def label_of(answer: JudgedAnswer, rule: LabelRule, skipped: Counter[str]) -> Label | None:
    """None where nothing tells; the reason is counted.

    A mean rating in the middle of the scale says nothing, whether everybody was undecided or people disagree evenly. Nor
    does a reward that only repeats it."""
    values = [rating.value for rating in answer.ratings]
    if values and (mean := fmean(values)) != 0.5:
        if max(mean, 1 - mean) < rule.min_confidence:
            skipped[LOW_CONFIDENCE] += 1
            return None
        return Label(mean > 0.5, "person", abs(2 * mean - 1), tuple(rating.feedback_id for rating in answer.ratings))
    if answer.proposed and is_sure(answer.proposed[1], rule):
        return Label(answer.proposed[0], "proposed", 2 * answer.proposed[1] - 1)
    if answer.reward is not None and not (values and answer.reward == 0.5):
        good = answer.reward >= rule.reward_threshold
        reach = 1 - rule.reward_threshold if good else rule.reward_threshold
        certainty = abs(answer.reward - rule.reward_threshold) / reach if reach > 0 else 1.0
        return Label(good, "reward", certainty, feedback_behind_reward(answer))
    if answer.heard and rule.follow_up_weight and not values:
        return Label(answer.heard[0], "follow_up", rule.follow_up_weight * (2 * answer.heard[1] - 1))
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
    columns = {"completion": answer_messages(answer.response, answer.steps), "label": label.good}
    return row_of(answer, columns, label.feedback_ids, label_source=label.source)


def row_of(
    answer: JudgedAnswer, columns: Mapping[str, Any], feedback_ids: Iterable[int], **behind: Any
) -> dict[str, Any]:
    """``columns``: what the method learns from; ``behind``: what stands behind the tools."""
    return {
        "prompt": prompt_messages(answer.prompt),
        **columns,
        **tools_column(answer.tools),
        **behind,
        "prompt_key": answer.prompt_key,
        "feedback": sorted(feedback_ids),
        "split_key": answer.split_key,
    }


def feedback_behind_reward(answer: JudgedAnswer) -> tuple[int, ...]:
    """What a reward looks at: ratings and outcomes."""
    return (*(rating.feedback_id for rating in answer.ratings), *answer.outcomes)


def is_sure(confidence: float, rule: LabelRule) -> bool:
    return rule.proposal_threshold is not None and confidence >= rule.proposal_threshold


LEAST_WEIGHT = 0.1
"""The weight of a row whose raters hardly lean to one side: it says little, and not nothing."""


def pair_row(pair: PreferencePair, votes: Sequence[Vote] = ()) -> dict[str, Any]:
    """Weighs the share of the raters that agree less that of the others."""
    confidence: float = (pair.metadata or {}).get("confidence", 1.0)
    return {**training_row(pair), "weight": _weight(2 * confidence - 1), "votes": list(votes)}


def single_row(answer: JudgedAnswer, rule: LabelRule, skipped: Counter[str]) -> dict[str, Any] | None:
    """Weighs what it is away from the line between good and bad, as a share of the way to the end of the scale; of a next
    message a small part of that. None: left out, counted."""
    label = usable_label(answer, rule, skipped)
    if label is None:
        return None
    run, heard = answer_messages(answer.response, answer.steps), label.source == "follow_up"
    weight = round(label.certainty, 4) if heard else _weight(label.certainty)
    chosen, rejected = (run, None) if label.good else (None, run)
    columns = {"chosen": chosen, "rejected": rejected, "weight": weight, "votes": _votes_for(answer, label)}
    return row_of(answer, columns, label.feedback_ids, label_source=label.source)


def _votes_for(answer: JudgedAnswer, label: Label) -> list[Vote]:
    if label.source != "person":
        return []
    taking_sides = (rating for rating in answer.ratings if rating.rater and rating.value != 0.5)
    return [Vote(rating.rater, (rating.value > 0.5) == label.good) for rating in taking_sides]


def _weight(certainty: float) -> float:
    return round(min(max(certainty, LEAST_WEIGHT), 1.0), 4)
