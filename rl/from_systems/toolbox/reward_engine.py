"""ToolBoxV2's RewardEngine over Ratchet's: a weighted mean over the rewards that apply.

Rewards as ToolBoxV2 has them: ``compute(trace)`` gives a ``RewardResult(score, is_binary, details)``. The built-in ones
are Ratchet's own, so one that does not apply abstains, where ToolBoxV2 gives 0.5."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl.base.errors import RewardFailed, UsageError
from rl.base.records import AnswerScore, TraceRecord
from rl.from_systems.toolbox.records import ExecutionTrace, trace_of, trace_record
from rl.rewards import REWARDS, format_compliance, reward_class
from rl.rewards import base as core
from rl.rewards.engine import LABEL_THRESHOLD
from rl.rewards.engine import RewardEngine as CoreEngine

NEUTRAL = 0.5


@dataclass
class RewardResult:
    score: float
    """0 to 1; NEUTRAL where the reward does not apply."""
    is_binary: bool
    details: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    applies: bool = True
    """False: it says nothing about this trace, and is left out of the mean."""

    def to_binary(self, threshold: float = 0.5) -> int:
        return int(self.score >= threshold)


class BaseReward(ABC):
    name: str = "base"
    weight: float = 1.0
    is_binary: bool = True

    @abstractmethod
    def compute(self, trace: ExecutionTrace) -> RewardResult: ...

    def __call__(self, trace: ExecutionTrace) -> RewardResult:
        return self.compute(trace)


class _BuiltIn(BaseReward):
    """One of Ratchet's."""

    own_name = ""
    """Ratchet's name for it."""

    def __init__(self) -> None:
        self._take(reward_class(self.own_name)())

    def _take(self, reward: core.BaseReward) -> None:
        self.reward, self.name, self.weight = reward, reward.name, reward.weight

    def compute(self, trace: ExecutionTrace) -> RewardResult:
        given = self.reward.compute(trace_record(trace))
        details = {"reason": given.reason, **given.details}
        if given.value is None:
            return RewardResult(NEUTRAL, self.is_binary, details, applies=False)
        return RewardResult(given.value, self.is_binary, details)


class CodeExecutionReward(_BuiltIn):
    """In the sandbox."""

    own_name = "code_execution"


class SyntaxValidationReward(_BuiltIn):
    own_name = "syntax_validation"


class ToolSuccessReward(_BuiltIn):
    own_name = "tool_success"


class TaskCompletionReward(_BuiltIn):
    own_name = "task_completion"


class EfficiencyReward(_BuiltIn):
    is_binary = False
    own_name = "efficiency"


class FormatComplianceReward(_BuiltIn):
    """Plain text without markup, as ToolBoxV2 asks of every answer."""

    def __init__(self, forbidden_patterns: list[str] | None = None) -> None:
        if forbidden_patterns is not None:
            raise UsageError(
                "forbidden_patterns is not taken: write a reward of your own for other patterns than markup"
            )
        self._take(format_compliance.FormatComplianceReward("plain"))


class LearnedReward(_BuiltIn):
    """Abstains: what Ratchet learns from labels it learns for an agent, by ``manage.py auto_label``."""

    is_binary = False
    own_name = "learned_reward"


class OfToolBox(core.BaseReward):
    """A reward that was written for ToolBoxV2, among Ratchet's."""

    def __init__(self, reward: BaseReward) -> None:
        self.reward, self.name, self.weight = reward, reward.name, float(reward.weight)

    def compute(self, trace: TraceRecord) -> core.RewardResult:
        result = self.reward.compute(trace_of(trace))
        if not isinstance(result, RewardResult):
            raise RewardFailed(self.name, f"gave {result!r:.200}; compute returns a RewardResult")
        if result.error:
            raise RewardFailed(self.name, result.error)
        value = float(result.score) if result.applies else None
        return core.RewardResult(self.name, value, self.weight, "", dict(result.details))


def as_core(reward: BaseReward) -> core.BaseReward:
    """The same reward for Ratchet's engine. Raises UsageError for what is not a reward."""
    if isinstance(reward, _BuiltIn):
        return reward.reward
    if not isinstance(reward, BaseReward):
        raise UsageError(
            f"{reward!r:.100} is not a BaseReward: give objects, such as [ToolSuccessReward(), MyReward()]"
        )
    return OfToolBox(reward)


DEFAULTS: tuple[Callable[[], BaseReward], ...] = (
    CodeExecutionReward,
    SyntaxValidationReward,
    ToolSuccessReward,
    TaskCompletionReward,
    EfficiencyReward,
    FormatComplianceReward,
)


class RewardEngine:
    """``rewards`` take the place of the six defaults."""

    def __init__(self, rewards: Sequence[BaseReward] | None = None) -> None:
        self.rewards: list[BaseReward] = [make() for make in DEFAULTS] if rewards is None else list(rewards)
        weights = {reward.name: float(reward.weight) for reward in self.rewards}
        others = {name: 0.0 for name in REWARDS if name not in weights}
        self._engine = CoreEngine({**others, **weights}, rewards=[as_core(reward) for reward in self.rewards])

    def compute_all(self, trace: ExecutionTrace) -> dict[str, RewardResult]:
        """By name. One that breaks has score 0 and an error."""
        results = {}
        for reward in self.rewards:
            try:
                results[reward.name] = reward.compute(trace)
            except Exception as error:  # noqa: BLE001  a reward may be anybody's code: it is its own failure
                failure = f"{type(error).__name__}: {error}"
                results[reward.name] = RewardResult(0.0, reward.is_binary, error=failure)
        return results

    def compute_combined(self, trace: ExecutionTrace) -> float:
        """0 to 1; 0.5 where no reward applies. Raises RewardFailed for one that breaks."""
        combined = self._engine.compute_combined(trace_record(trace))
        return NEUTRAL if combined is None else combined

    def compute_for_group(self, traces: Sequence[ExecutionTrace]) -> list[float]:
        """(reward - mean) / standard deviation of the group; of a single trace its reward."""
        if len(traces) == 1:
            return [self.compute_combined(traces[0])]
        return [reward or 0.0 for reward in self._engine.compute_for_group([trace_record(trace) for trace in traces])]

    def get_binary_label(self, trace: ExecutionTrace, threshold: float = LABEL_THRESHOLD) -> bool | None:
        """None where no reward applies."""
        combined = self._engine.compute_combined(trace_record(trace))
        return None if combined is None else combined >= threshold

    def score(self, record: TraceRecord) -> AnswerScore:
        """As a scorer of Ratchet's training. Raises RewardFailed."""
        results = self._engine.compute_all(record)
        parts = {result.name: result.value for result in results if result.value is not None}
        return AnswerScore(self._engine.combine(results), parts)

    def of_fresh_answers(self) -> RewardEngine | None:
        """With the rewards that can judge an answer which was just generated; None where none can."""
        cores = {reward.name: as_core(reward) for reward in self.rewards}
        fresh = [reward for reward in self.rewards if cores[reward.name].fresh]
        can_judge = any(not cores[reward.name].supporting for reward in fresh)
        return RewardEngine(fresh) if can_judge else None

    def summary(self, trace: ExecutionTrace) -> str:
        """One line a reward, then the combined one and the label."""
        lines = [f"{name}: {_in_words(result)}" for name, result in self.compute_all(trace).items()]
        label = self.get_binary_label(trace)
        verdict = "not known" if label is None else "GOOD" if label else "BAD"
        return "\n".join([*lines, f"Combined: {self.compute_combined(trace):.3f}", f"Label: {verdict}"])


def _in_words(result: RewardResult) -> str:
    if result.error:
        return f"error: {result.error}"
    return f"{result.score:.3f}" if result.applies else f"does not apply ({result.details.get('reason', '')})"
