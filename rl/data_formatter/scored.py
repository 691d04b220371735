"""Single answers with a number: with their reward, for any tool that reads it, and with a score, for a reward model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from rl.base.records import JudgedAnswer
from rl.data_formatter.labelled import NO_LABEL, LabelRule, feedback_behind_reward, is_sure
from rl.data_formatter.opinions import BROKEN_OFF, EMPTY_ANSWER, LOW_CONFIDENCE
from rl.data_formatter.runs import answer_messages, prompt_messages, tools_column

NO_REWARD = "no reward yet"
MIDDLE = 0.5
"""A broken-off answer that is not worse is in no row."""
DIGITS = 6
"""Decimal places of a reward in a row: what means and floating point add behind them is noise."""


def scored_row(answer: JudgedAnswer, skipped: Counter[str]) -> dict[str, Any] | None:
    """None: left out, and the reason counted."""
    if (reward := usable_reward(answer, skipped)) is None:
        return None
    return {
        "prompt": prompt_messages(answer.prompt),
        "completion": answer_messages(answer.response, answer.steps),
        **tools_column(answer.tools),
        "reward": round(reward, DIGITS),
        "prompt_key": answer.prompt_key,
        "feedback": sorted(feedback_behind_reward(answer)),
        "split_key": answer.split_key,
    }


def usable_reward(answer: JudgedAnswer, skipped: Counter[str]) -> float | None:
    if answer.reward is None:
        skipped[NO_REWARD] += 1
    elif not answer.response.strip():
        skipped[EMPTY_ANSWER] += 1
    elif answer.is_broken_off and answer.reward >= MIDDLE:
        skipped[BROKEN_OFF] += 1
    else:
        return answer.reward
    return None


@dataclass(frozen=True, slots=True)
class Score:
    value: float
    """0 to 1."""
    source: Literal["person", "reward", "proposed"]
    feedback_ids: tuple[int, ...] = ()
    """That it rests on."""


def score_of(answer: JudgedAnswer, rule: LabelRule, skipped: Counter[str]) -> Score | None:
    """People's mean rating, but for ratings that the reward counts already, else the reward, else how likely a sure proposal
    finds the answer good. None where nothing tells; the reason is counted.

    Unlike a label, a score may lie in the middle: that is what people gave.
    """
    counted = () if answer.reward is None else answer.in_reward
    if ratings := [rating for rating in answer.ratings if rating.feedback_id not in counted]:
        values = [rating.value for rating in ratings]
        if _agreement(values) < rule.min_confidence:
            skipped[LOW_CONFIDENCE] += 1
            return None
        return Score(fmean(values), "person", tuple(rating.feedback_id for rating in ratings))
    if answer.reward is not None:
        return Score(answer.reward, "reward", feedback_behind_reward(answer))
    if answer.proposed and is_sure(answer.proposed[1], rule):
        good, confidence = answer.proposed
        return Score(confidence if good else 1 - confidence, "proposed")
    skipped[NO_LABEL] += 1
    return None


def single_row(answer: JudgedAnswer, rule: LabelRule, skipped: Counter[str]) -> dict[str, Any] | None:
    """A scored answer that stands alone, as a reward model learns from it. None: left out, and the reason counted."""
    if not answer.response.strip():
        skipped[EMPTY_ANSWER] += 1
        return None
    score = score_of(answer, rule, skipped)
    if score and score.value >= MIDDLE and answer.is_broken_off:
        skipped[BROKEN_OFF] += 1
        return None
    if score is None:
        return None
    return {
        "prompt": prompt_messages(answer.prompt),
        "completion": answer_messages(answer.response, answer.steps),
        **tools_column(answer.tools),
        "score": round(score.value, DIGITS),
        "score_source": score.source,
        "prompt_key": answer.prompt_key,
        "feedback": sorted(score.feedback_ids),
        "split_key": answer.split_key,
    }


def _agreement(values: Sequence[float]) -> float:
    """Share of the raters on the side of the larger number, 0.5 to 1; those in the middle of the scale are on neither."""
    up, down = sum(value > 0.5 for value in values), sum(value < 0.5 for value in values)
    return max(up, down) / (up + down) if up + down else 1.0
