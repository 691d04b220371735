"""ToolBoxV2's RewardEngine over Ratchet's: a weighted mean over the rewards that apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rl.base.records import AnswerScore, TraceRecord
from rl.from_systems.toolbox.records import ExecutionTrace, trace_record
from rl.from_systems.toolbox.rewards import (
    NEUTRAL,
    BaseReward,
    CodeExecutionReward,
    EfficiencyReward,
    FormatComplianceReward,
    RewardResult,
    SyntaxValidationReward,
    TaskCompletionReward,
    ToolSuccessReward,
    as_core,
)
from rl.rewards import REWARDS
from rl.rewards.engine import LABEL_THRESHOLD
from rl.rewards.engine import RewardEngine as CoreEngine

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
        return {reward.name: _attempt(reward, trace) for reward in self.rewards}

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

    def summary(self, trace: ExecutionTrace) -> str:
        """One line a reward, then the combined one and the label."""
        lines = [f"{name}: {_in_words(result)}" for name, result in self.compute_all(trace).items()]
        label = self.get_binary_label(trace)
        verdict = "not known" if label is None else "GOOD" if label else "BAD"
        return "\n".join([*lines, f"Combined: {self.compute_combined(trace):.3f}", f"Label: {verdict}"])


def _attempt(reward: BaseReward, trace: ExecutionTrace) -> RewardResult:
    try:
        return reward.compute(trace)
    except Exception as error:  # a reward may be anybody's code: whatever it raises is its own failure
        return RewardResult(0.0, reward.is_binary, error=f"{type(error).__name__}: {error}")


def _in_words(result: RewardResult) -> str:
    if result.error:
        return f"error: {result.error}"
    return f"{result.score:.3f}" if result.applies else f"does not apply ({result.details.get('reason', '')})"
