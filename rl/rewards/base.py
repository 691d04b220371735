"""BaseReward, RewardResult."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from rl.base.records import TraceRecord


@dataclass(frozen=True, slots=True)
class RewardResult:
    name: str
    value: float | None
    """0 … 1; None: the reward does not apply, and is left out of the mean."""
    weight: float
    reason: str = ""
    """One sentence for people."""
    details: dict[str, Any] = field(default_factory=dict)
    """JSON: the figures that the value came from."""

    def as_dict(self) -> dict[str, Any]:
        return {"value": self.value, "weight": self.weight, "reason": self.reason, "details": self.details}


class BaseReward(ABC):
    """Judges one answer. Raise anything when judging itself breaks: the engine names the reward; never return 0 for that."""

    name: str
    weight: float = 1.0
    """Its share in the mean, unless the agent has another."""
    supporting: bool = False
    """True: counts only beside a reward that is evidence by itself."""
    fresh: bool = True
    """Whether it can judge an answer that was just generated, of which the text is known and what came with the prompt;
    False where it judges what was recorded of a stored answer, or said about it."""

    @abstractmethod
    def compute(self, trace: TraceRecord) -> RewardResult:
        """Ends with ``self.gives(...)`` or ``self.abstains(...)``."""

    def gives(self, value: float, reason: str, **details: Any) -> RewardResult:
        return RewardResult(self.name, float(value), self.weight, reason, details)

    def abstains(self, reason: str, **details: Any) -> RewardResult:
        return RewardResult(self.name, None, self.weight, reason, details)
