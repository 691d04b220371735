"""Statistics over an agent's traces."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from statistics import fmean
from typing import Any

from rl.collect.traces import records as trace_records
from rl.dataset_builder import get_training_stats
from rl.models import Agent

SAMPLE = 1000
"""Newest traces that are read for what only their JSON columns know."""
AT_ONCE, SECONDS = 10, 0.5
"""Traces read between two looks at the clock, and when it is enough: tool calls may be megabytes."""


def statistics(agent: Agent) -> dict[str, Any]:
    """Counts over all of the agent's traces; rewards and tools over the newest of them."""
    rewards: defaultdict[str, list[float]] = defaultdict(list)
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    read = 0
    for rewards_of_trace, tool_calls in _newest(agent):
        read += 1
        for name, reward in rewards_of_trace.items() if isinstance(rewards_of_trace, dict) else ():
            if isinstance(reward, dict) and isinstance(reward.get("value"), (int, float)):
                rewards[name].append(reward["value"])
        for call in trace_records.tool_calls(tool_calls):
            calls[call.tool_name] += 1
            failed[call.tool_name] += not call.success
    return {
        "figures": _figures(get_training_stats(agent.name)),
        "sample": read,
        "rewards": [
            {"name": name, "count": len(values), "percent": round(fmean(values) * 100)}
            for name, values in sorted(rewards.items())
        ],
        "tools": [
            {"name": name, "count": count, "percent": round(100 * (count - failed[name]) / count)}
            for name, count in calls.most_common(50)
        ],
    }


def _newest(agent: Agent) -> Iterator[tuple[Any, Any]]:
    """Rewards and tool calls of SAMPLE traces, or of as many as can be read in SECONDS."""
    rows = agent.traces.order_by("-created_at", "id").values_list("rewards", "tool_calls")
    until = time.monotonic() + SECONDS
    for start in range(0, SAMPLE, AT_ONCE):
        some = list(rows[start : start + AT_ONCE])
        yield from some
        if len(some) < AT_ONCE or time.monotonic() > until:
            return


def _figures(counts: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and numbers for people's eyes."""
    plain = {name: value for name, value in counts.items() if isinstance(value, (int, float, str)) and value != ""}
    return [
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
        for name, value in plain.items()
    ]
