"""What can be said about an answer without asking a person again: one number from 0 to 1 a reward, and their weighted mean.

``REWARDS`` names one class for each reward. A reward that does not apply to an answer gives None and is left out of the
mean; one that breaks raises RewardFailed. Classes are imported on first use, parser libraries only when a text needs them.

Imports: base, config, sandbox."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from rl.base.leaves import import_name, lazy_name
from rl.base.names import require_known

if TYPE_CHECKING:
    from rl.rewards.base import BaseReward

REWARDS: Final[dict[str, str]] = {
    "code_execution": "rl.rewards.code_execution.CodeExecutionReward",
    "syntax_validation": "rl.rewards.syntax.SyntaxValidationReward",
    "tool_success": "rl.rewards.recorded.ToolSuccessReward",
    "task_completion": "rl.rewards.recorded.TaskCompletionReward",
    "efficiency": "rl.rewards.recorded.EfficiencyReward",
    "format_compliance": "rl.rewards.format_compliance.FormatComplianceReward",
    "learned_reward": "rl.rewards.recorded.LearnedReward",
    "decision": "rl.rewards.decision.DecisionReward",
    "environment": "rl.rewards.recorded.EnvironmentReward",
    "feedback": "rl.rewards.recorded.FeedbackReward",
}
_OTHERS: Final = ("rl.rewards.base.BaseReward", "rl.rewards.base.RewardResult", "rl.rewards.engine.RewardEngine")
_EXPORTED: Final = {path.rpartition(".")[2]: path for path in (*_OTHERS, *REWARDS.values())}


def reward_class(name: str) -> type[BaseReward]:
    """Raises UsageError that lists the known names."""
    require_known("reward", name, REWARDS)
    reward: type[BaseReward] = import_name(REWARDS[name])
    return reward


def default_weights() -> dict[str, float]:
    return {name: reward_class(name).weight for name in REWARDS}


__getattr__ = partial(lazy_name, __name__, paths=_EXPORTED)
