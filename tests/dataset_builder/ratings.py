"""Ratings, side-by-side picks and corrections, made the way people make them."""

import json
from pathlib import Path
from typing import Any

from rl.collect.feedback import write
from rl.dataset_builder import is_held_out
from rl.models import Agent, Feedback, Trace, TrainingSet
from tests.conftest import make_trace


def rate(trace: Trace, value: float, rater: str = "alice", scale: str = "thumb") -> Feedback:
    return write.rate(trace, rater=rater, scale=scale, value=value, source="test").event


def rated(agent: Agent, question: str, response: str, value: float, rater: str = "alice") -> Feedback:
    return rate(make_trace(agent, question, response), value, rater)


def rate_prompts(agent: Agent, count: int, start: int = 0) -> list[Feedback]:
    """Each prompt with one liked and one disliked answer: one pair."""
    return [
        rated(agent, f"Question {number}?", f"Answer {number} is {'good' if value else 'bad'}.", value)
        for number in range(start, start + count)
        for value in (1, 0)
    ]


def questions(agent: Agent, *, held_out: bool, share: float = 0.2) -> list[str]:
    """Some questions whose prompts fall on this side of the split."""
    from rl.models import prompt_key

    asked = (f"Question {number}?" for number in range(200))
    keyed = ((text, prompt_key([{"role": "user", "content": text}])) for text in asked)
    return [text for text, key in keyed if is_held_out(agent.name, key, share) == held_out]


def read_rows(training_set: TrainingSet, name: str) -> list[dict[str, Any]]:
    return read_jsonl(training_set.directory / f"{name}.jsonl")


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def all_rows(training_set: TrainingSet) -> list[dict[str, Any]]:
    return read_rows(training_set, "train") + read_rows(training_set, "heldout")


def texts(row: dict[str, Any]) -> tuple[str, str]:
    """Chosen and rejected."""
    return row["chosen"][0]["content"], row["rejected"][0]["content"]
