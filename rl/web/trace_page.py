"""One trace as people read it."""

from __future__ import annotations

import json
from typing import Any

from rl.collect import trace_records
from rl.models import Trace, TrainingSet
from rl.web.trace_lists import conversation

EVENTS = 200
"""Feedback events that are shown."""


def trace_context(trace: Trace) -> dict[str, Any]:
    """What ``rl/trace_parts.html`` reads. Five queries."""
    return {
        "trace": trace,
        "tool_calls": [_tool_call(call) for call in trace_records.tool_calls(trace.tool_calls)],
        "reasoning": list(trace_records.reasoning_steps(trace.reasoning_steps)),
        "tasks": list(trace_records.task_events(trace.tasks)),
        "state": readable(trace.state) if trace.state is not None else "",
        "action": readable(trace.action) if trace.action is not None else "",
        "details": readable(trace.details) if trace.details else "",
        "rewards": components(trace),
        "events": list(trace.feedback.select_related("other_trace").order_by("-created_at", "-id")[:EVENTS]),
        "training_sets": list(TrainingSet.objects.filter(members__trace=trace).order_by("-created_at")),
        "proposal": getattr(trace, "label_proposal", None),
        "conversation": conversation(trace),
    }


def components(trace: Trace) -> list[dict[str, Any]]:
    """The rewards that apply first, each with its percentage; then those that say why they do not."""
    stored = trace.rewards if isinstance(trace.rewards, dict) else {}
    found = [{"name": name, **one} for name, one in stored.items() if isinstance(one, dict)]
    for one in found:
        value = one.get("value")
        one["percent"] = round(value * 100) if isinstance(value, (int, float)) else None
    return sorted(found, key=lambda one: (one["percent"] is None, one["name"]))


def readable(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _tool_call(call: trace_records.ToolCall) -> dict[str, Any]:
    return {
        "name": call.tool_name,
        "arguments": readable(call.arguments) if call.arguments not in (None, "", {}) else "",
        "result": readable(call.result) if call.result is not None else "",
        "success": call.success,
        "error": call.error,
        "duration_ms": call.duration_ms,
    }
