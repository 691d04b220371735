"""Single answers with their reward, for training a reward model and for any tool that reads scores."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rl.base.records import JudgedAnswer
from rl.data_formatter.labelled import completion, feedback_behind_reward
from rl.data_formatter.opinions import EMPTY_ANSWER

NO_REWARD = "no reward yet"
DIGITS = 6
"""Decimal places of a reward in a row: what means and floating point add behind them is noise."""


def scored_row(answer: JudgedAnswer, skipped: Counter[str]) -> dict[str, Any] | None:
    """None: left out, and the reason counted."""
    if (reward := usable_reward(answer, skipped)) is None:
        return None
    return {
        "prompt": list(answer.prompt),
        "completion": completion(answer.response),
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
    else:
        return answer.reward
    return None
