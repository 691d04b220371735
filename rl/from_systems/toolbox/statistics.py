"""Figures over traces, under the names that ToolBoxV2's collector has for them."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from rl.collect.capture.execution_trace import ExecutionTrace


def count_traces(traces: Iterable[ExecutionTrace]) -> dict[str, Any]:
    """Only ``total`` where there are none."""
    rows = [(trace.label, len(trace.tool_calls), len(trace.reasoning_steps), trace.total_cost) for trace in traces]
    if not rows:
        return {"total": 0}
    labels, calls, steps, costs = zip(*rows, strict=True)
    labeled = [label for label in labels if label is not None]
    return {
        "total": len(rows),
        "labeled": len(labeled),
        "unlabeled": len(rows) - len(labeled),
        "positive_labels": sum(labeled),
        "negative_labels": len(labeled) - sum(labeled),
        "avg_tool_calls": fmean(calls),
        "avg_reasoning_steps": fmean(steps),
        "avg_cost": fmean(costs),
    }
