"""Tool calls."""

from __future__ import annotations

from rl.base.records import TraceRecord
from rl.rewards.base import BaseReward, RewardResult


class ToolSuccessReward(BaseReward):
    """The share of the tool calls that succeeded. Says nothing about whether they were the right ones."""

    name = "tool_success"
    weight = 2.0
    fresh = False

    def compute(self, trace: TraceRecord) -> RewardResult:
        if not trace.tool_calls:
            return self.abstains("it called no tool")
        failed = sorted({call.tool_name[:100] for call in trace.tool_calls if not call.success})[:10]
        calls, good = len(trace.tool_calls), sum(call.success for call in trace.tool_calls)
        return self.gives(good / calls, f"{good} of {calls} tool calls succeeded", calls=calls, failed=failed)
