"""N3's ``training_results.json``. Exactly N3's names: model_path, reward_model_path, feedback_count, final_reward_mean,
final_reward_std, training_steps, reward_history, kl_history, loss_history.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from rl.base.errors import BadFile
from rl.base.files import write_json
from rl.base.outside_files import read_text

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
