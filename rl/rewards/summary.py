"""Counts, mean and spread of rewards, and what became of the traces."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rl.base.errors import RewardFailed
from rl.rewards.base import RewardResult


@dataclass(slots=True)
class MeanAndSpread:
    """Mean and spread of a stream of numbers (Welford)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of squared distances from the mean."""

    def add(self, value: float) -> None:
        self.count += 1
        step = value - self.mean
        self.mean += step / self.count
        self.squares += step * (value - self.mean)

    def as_dict(self) -> dict[str, Any]:
        """``mean`` and ``std`` (population) are None where there is no number."""
        std = math.sqrt(self.squares / self.count) if self.count else None
        return {"count": self.count, "mean": self.mean if self.count else None, "std": std}


@dataclass(slots=True)
class Component(MeanAndSpread):
    abstained: int = 0
    broken: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {**MeanAndSpread.as_dict(self), "abstained": self.abstained, "broken": self.broken}


@dataclass(slots=True)
class RewardSummary:
    traces: int = 0
    combined: MeanAndSpread = field(default_factory=MeanAndSpread)
    components: dict[str, Component] = field(default_factory=dict)
    good: int = 0
    bad: int = 0
    unlabelled: int = 0

    def add(self, results: Sequence[RewardResult | RewardFailed], combined: float | None, label: bool | None) -> None:
        self.traces += 1
        for result in results:
            name = result.reward if isinstance(result, RewardFailed) else result.name
            component = self.components.setdefault(name, Component())
            if isinstance(result, RewardFailed):
                component.broken += 1
            elif result.value is None:
                component.abstained += 1
            else:
                component.add(result.value)
        if combined is not None:
            self.combined.add(combined)
        self.good += label is True
        self.bad += label is False
        self.unlabelled += label is None

    def as_dict(self) -> dict[str, Any]:
        return {
            "traces": self.traces,
            "combined": self.combined.as_dict(),
            "components": {name: component.as_dict() for name, component in self.components.items()},
            "labels": {"good": self.good, "bad": self.bad, "unlabelled": self.unlabelled},
        }


EXAMPLES = 5


@dataclass(slots=True)
class Failures:
    count: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)
    """The first traces, with what broke."""

    def add(self, trace: str, reason: str) -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append({"trace": trace, "reason": reason})


@dataclass(slots=True)
class RewardReport:
    """``read`` = ``rewarded`` + ``nothing_applies`` + ``broken`` + ``changed``."""

    read: int = 0
    rewarded: int = 0
    nothing_applies: int = 0
    broken: int = 0
    changed: int = 0
    """Traces that got feedback, or were deleted, while their reward was computed; they wait for the next time."""
    finished: bool = True
    """False: the time was up before the end."""
    failures: dict[str, Failures] = field(default_factory=dict)
    """Reward that broke to where."""
    unusable: dict[str, str] = field(default_factory=dict)
    """Agent whose settings are wrong to what is wrong; its traces were not looked at."""
    summary: RewardSummary = field(default_factory=RewardSummary)

    @property
    def written(self) -> int:
        return self.read - self.changed

    def as_dict(self) -> dict[str, Any]:
        counts = ("read", "rewarded", "nothing_applies", "broken", "changed", "finished")
        failures = {
            name: {"count": failure.count, "examples": failure.examples} for name, failure in self.failures.items()
        }
        return {
            **{name: getattr(self, name) for name in counts},
            **{name: value for name, value in self.summary.as_dict().items() if name != "traces"},
            "failures": failures,
            "unusable": self.unusable,
        }
