"""What there is to learn from, in the words of ToolBoxV2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from rl.collect.capture.execution_trace import ExecutionTrace


def training_statistics(
    by_agent: Mapping[str, Sequence[ExecutionTrace]], agents_discovered: Sequence[str], checkpoints_available: int
) -> dict[str, Any]:
    """Lengths are in characters. Two agents' sessions of one name are two."""
    traces = [trace for agent_traces in by_agent.values() for trace in agent_traces]
    tools = sorted({call.tool_name for trace in traces for call in trace.tool_calls})
    labeled = sum(trace.label is not None for trace in traces)
    return {
        "total_traces": len(traces),
        "unique_sessions": len(
            {(agent, trace.session_id) for agent, agent_traces in by_agent.items() for trace in agent_traces}
        ),
        "labeled_traces": labeled,
        "unlabeled_traces": len(traces) - labeled,
        "traces_with_tool_calls": sum(bool(trace.tool_calls) for trace in traces),
        "traces_with_reasoning": sum(bool(trace.reasoning_steps) for trace in traces),
        "unique_tools_used": len(tools),
        "tools_list": tools,
        "avg_query_length": _mean([len(trace.user_query) for trace in traces]),
        "avg_response_length": _mean([len(trace.final_response) for trace in traces]),
        "total_tokens_in": sum(trace.total_tokens_in for trace in traces),
        "total_tokens_out": sum(trace.total_tokens_out for trace in traces),
        "total_cost": fsum(trace.total_cost for trace in traces),
        "agents_discovered": list(agents_discovered),
        "checkpoints_available": checkpoints_available,
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
