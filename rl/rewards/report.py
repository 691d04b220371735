"""What became of the traces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rl.rewards.summary import RewardSummary

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
