"""N3's scored answers as rows that Ratchet's methods train on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.base.errors import UsageError
from rl.base.files import replacing
from rl.base.records import Message

SEED = 42


@dataclass(frozen=True, slots=True)
class FeedbackExample:
    prompt: str
    response: str
    score: float
    """0 to 1."""
    run_id: str = ""
    notes: str | None = None

    @property
    def messages(self) -> list[Message]:
        return [Message(role="user", content=self.prompt)]

    @property
    def answer(self) -> list[Message]:
        return [Message(role="assistant", content=self.response)]


Feedback = Mapping[str, Any] | FeedbackExample


def examples(feedbacks: Iterable[Feedback]) -> list[FeedbackExample]:
    """``feedbacks``: dictionaries with ``prompt``, ``response`` and ``score``; ``run_id`` (also ``runId``) and ``notes`` may
    be missing. Raises UsageError that names the first one that is wrong."""
    return [_example(number, feedback) for number, feedback in enumerate(feedbacks, start=1)]


def _example(number: int, feedback: Feedback) -> FeedbackExample:
    if isinstance(feedback, FeedbackExample):
        return feedback
    prompt, response, score = (feedback.get(name) for name in ("prompt", "response", "score"))
    for name, text in (("prompt", prompt), ("response", response)):
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"feedback {number}: {name} is missing or empty")
    if not isinstance(score, (int, float)) or isinstance(score, bool) or not 0 <= score <= 1:
        raise UsageError(f"feedback {number}: score must be a number from 0 to 1, not {score!r:.50}")
    run = feedback.get("run_id") or feedback.get("runId") or ""
    return FeedbackExample(str(prompt), str(response), float(score), str(run), feedback.get("notes"))


def prepare_feedback_dataset(
    feedbacks: Iterable[Feedback],
    tokenizer: Any = None,
    max_length: int = 512,
    train_split: float = 0.8,
    normalize_scores: bool = True,
) -> tuple[list[FeedbackExample], list[FeedbackExample]]:
    """Those to train on, and those held out, always the same ones. ``tokenizer``, ``max_length`` and ``normalize_scores``
    have no effect: rows become tokens in training, and scores are learned as they are."""
    rows = examples(feedbacks)
    random.Random(SEED).shuffle(rows)  # noqa: S311  nothing is kept secret by it
    split = int(len(rows) * train_split)
    return rows[:split], rows[split:]


def prepare_ppo_dataset(
    feedbacks: Iterable[Feedback], tokenizer: Any = None, max_prompt_length: int = 256
) -> list[dict[str, Any]]:
    """A row for each feedback; a prompt that comes twice counts twice."""
    return [{"prompt": example.messages, "details": {}} for example in examples(feedbacks)]


def write_scores(rows: Sequence[FeedbackExample], path: Path) -> Path:
    """As ``reward_model`` trains on them."""
    return _write([{"prompt": row.messages, "completion": row.answer, "score": row.score} for row in rows], path)


def write_prompts(feedbacks: Iterable[Feedback], path: Path) -> Path:
    """As ``ppo`` trains on them."""
    return _write(prepare_ppo_dataset(feedbacks), path)


def _write(rows: Iterable[Mapping[str, Any]], path: Path) -> Path:
    with replacing(path) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return path
