"""Tokens, tool calls, time."""

from __future__ import annotations

from statistics import fmean

from rl.base.records import TraceRecord
from rl.rewards.base import BaseReward, RewardResult


class EfficiencyReward(BaseReward):
    """The mean of 2 ** (-used / half) over what is known of tokens (in and out), tool calls and duration.

    Each part is 1 for nothing used, 0.5 at its ``half``, and nears 0. Supporting: a quick wrong answer is not a good one.
    """

    name = "efficiency"
    weight = 0.5
    supporting = True

    def __init__(self, tokens: float = 4000, tool_calls: float = 8, duration_ms: float = 60_000) -> None:
        self.halves = {"tokens": tokens, "tool_calls": tool_calls, "duration_ms": duration_ms}

    def compute(self, trace: TraceRecord) -> RewardResult:
        usage = _measure_usage(trace)
        if not usage:
            return self.abstains("neither tokens, tool calls nor duration are known")
        parts = {name: 2 ** (-amount / self.halves[name]) for name, amount in usage.items()}
        amounts = ", ".join(f"{amount:g} {name.replace('_', ' ')}" for name, amount in usage.items())
        return self.gives(fmean(parts.values()), f"it used {amounts}", parts=parts)


def _measure_usage(trace: TraceRecord) -> dict[str, float]:
    """What is known; no recorded tool call may mean that none was made or that none was recorded."""
    tokens = [count for count in (trace.tokens_in, trace.tokens_out) if count is not None]
    usage = {
        "tokens": sum(tokens) if tokens else None,
        "tool_calls": len(trace.tool_calls) or None,
        "duration_ms": trace.duration_ms,
    }
    return {name: amount for name, amount in usage.items() if amount is not None and amount >= 0}
