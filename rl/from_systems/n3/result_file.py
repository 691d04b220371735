"""What N3's training takes and leaves: scored answers as rows that Ratchet's methods train on, and
``training_results.json``. Exactly N3's names: model_path, reward_model_path, feedback_count, final_reward_mean,
final_reward_std, training_steps, reward_history, kl_history, loss_history."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from rl.base.errors import BadFile, UsageError
from rl.base.files import replacing, write_json
from rl.base.outside_files import read_text
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


Feedback = Mapping[str, Any] | FeedbackExample


def examples(feedbacks: Iterable[Feedback]) -> list[FeedbackExample]:
    """``feedbacks``: dictionaries with ``prompt``, ``response`` and ``score``; ``run_id`` (also ``runId``) and ``notes`` may
    be missing. Raises UsageError that names the first one that is wrong."""
    read = []
    for number, feedback in enumerate(feedbacks, start=1):
        if isinstance(feedback, FeedbackExample):
            read.append(feedback)
            continue
        prompt, response, score = (feedback.get(name) for name in ("prompt", "response", "score"))
        for name, text in (("prompt", prompt), ("response", response)):
            if not isinstance(text, str) or not text.strip():
                raise UsageError(f"feedback {number}: {name} is missing or empty")
        if not isinstance(score, (int, float)) or isinstance(score, bool) or not 0 <= score <= 1:
            raise UsageError(f"feedback {number}: score must be a number from 0 to 1, not {score!r:.50}")
        run = feedback.get("run_id") or feedback.get("runId") or ""
        read.append(FeedbackExample(str(prompt), str(response), float(score), str(run), feedback.get("notes")))
    return read


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


def write_rows(rows: Iterable[Mapping[str, Any]], path: Path) -> Path:
    with replacing(path) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return path


FILE = "training_results.json"
NAMES = ("reward", "kl", "kl_coef", "loss")
"""Metrics of a step that are read."""


@dataclass(frozen=True, slots=True)
class Histories:
    """What a training earned, as N3 reports it: the policy's return, less its penalty for moving away from the base model.
    One number for each step that knows it."""

    reward: list[float] = field(default_factory=list)
    """Mean return of the step's answers, on -1 to 1 where the divergence costs nothing."""
    kl: list[float] = field(default_factory=list)
    """Nats an answer."""
    loss: list[float] = field(default_factory=list)

    def add(self, step: Mapping[str, float | None]) -> None:
        if (reward := step.get("reward")) is not None:
            self.reward.append(2 * (reward - (step.get("kl_coef") or 0) * (step.get("kl") or 0)) - 1)
        for history, name in ((self.kl, "kl"), (self.loss, "loss")):
            if (number := step.get(name)) is not None:
                history.append(number)

    @property
    def mean(self) -> float | None:
        """None where the method generates nothing, so that nothing was rewarded."""
        return fmean(self.reward) if self.reward else None

    @property
    def std(self) -> float | None:
        """Standard deviation of the population; None as ``mean``."""
        return pstdev(self.reward) if self.reward else None

    def result(self, **others: Any) -> TrainingResult:
        """``others``: its other fields, and rewards that are not those of the history."""
        histories = {"reward_history": self.reward, "kl_history": self.kl, "loss_history": self.loss}
        return TrainingResult(**{"final_reward_mean": self.mean, "final_reward_std": self.std, **histories, **others})


@dataclass(frozen=True, slots=True)
class TrainingResult:
    model_path: str
    reward_model_path: str | None
    """None where none was made or named."""
    feedback_count: int
    final_reward_mean: float | None
    """As in ``Histories``; None where the method rewards nothing."""
    final_reward_std: float | None
    training_steps: int
    reward_history: list[float]
    kl_history: list[float]
    loss_history: list[float]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def save(self, path: Path | str) -> None:
        write_json(Path(path), asdict(self))

    @classmethod
    def load(cls, path: Path | str) -> TrainingResult:
        """Raises BadFile for a file that is not one."""
        try:
            return cls(**json.loads(read_text(Path(path))))
        except (RecursionError, ValueError, TypeError) as error:
            raise BadFile(path, f"is not N3's result of a training ({error})") from error
