"""What a training earned, step by step, as N3 reports it: the policy's return, on a scale of -1 to 1, less its penalty for
moving away from the base model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean, pstdev

NAMES = ("reward", "kl", "kl_coef", "loss")
"""Metrics of a step that are read."""


@dataclass(frozen=True, slots=True)
class Histories:
    """One number for each step that knows it."""

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
