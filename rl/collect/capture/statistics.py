"""What was recorded, in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rl.collect.capture.execution_trace import ExecutionTrace


def statistics(
    traces: Iterable[tuple[str, ExecutionTrace]], agents: Iterable[str], checkpoints: int = 0
) -> dict[str, Any]:
    """Statistics of traces that come with the names of their agents, in one pass. Lengths are in characters; sessions
    of two agents under one name count as two."""
    sums = dict.fromkeys(_SUMS, 0)
    sessions: set[tuple[str, str]] = set()
    tools: set[str] = set()
    cost = 0.0
    for agent, trace in traces:
        sessions.add((agent, trace.session_id))
        tools |= {call.tool_name for call in trace.tool_calls}
        cost += trace.total_cost
        for name, measure in _SUMS.items():
            sums[name] += measure(trace)
    total = sums["total_traces"]
    query, response = sums.pop("query_length"), sums.pop("response_length")
    return {
        **sums,
        "unique_sessions": len(sessions),
        "unlabeled_traces": total - sums["labeled_traces"],
        "unique_tools_used": len(tools),
        "tools_list": sorted(tools),
        "avg_query_length": query / total if total else 0.0,
        "avg_response_length": response / total if total else 0.0,
        "total_cost": cost,
        "agents_discovered": sorted(agents),
        "checkpoints_available": checkpoints,
    }


_SUMS: dict[str, Any] = {
    "total_traces": lambda trace: 1,
    "labeled_traces": lambda trace: trace.label is not None,
    "traces_with_tool_calls": lambda trace: bool(trace.tool_calls),
    "traces_with_reasoning": lambda trace: bool(trace.reasoning_steps),
    "query_length": lambda trace: len(trace.user_query),
    "response_length": lambda trace: len(trace.final_response),
    "total_tokens_in": lambda trace: trace.total_tokens_in,
    "total_tokens_out": lambda trace: trace.total_tokens_out,
}
