"""A finished trace as ``POST /api/v1/traces/`` takes it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Literal

from rl.base.records import TaskEvent
from rl.collect.capture.cleaning import CUT
from rl.collect.capture.execution_trace import ExecutionTrace
from rl.collect.limits import MAX_ID_LENGTH, MAX_WHOLE_NUMBER

LARGEST = 2 * 2**20
"""Bytes of one trace; a server takes 2.5 MiB unless it is told otherwise."""
_SHORTER = (1_000, 100, 0)
"""Characters of arguments and results, where a trace would be larger."""
_STATUSES: tuple[Literal["created", "completed", "failed"], ...] = ("created", "completed", "failed")


def body(trace: ExecutionTrace, agent: str) -> bytes:
    """As JSON. Of a run that is too large the arguments and results are cut: better than to lose it."""
    stored = payload(trace, agent)
    written = _to_json(stored)
    for longest in _SHORTER:
        if len(written) <= LARGEST:
            break
        stored["tool_calls"] = [
            {**call, **{name: _cut(call[name], longest) for name in ("arguments", "result")}}
            for call in stored["tool_calls"]
        ]
        written = _to_json(stored)
    return written


def payload(trace: ExecutionTrace, agent: str) -> dict[str, Any]:
    """The trace id becomes the external id: sending the same trace again changes nothing. A count of 0 is one that
    nobody took: it is left open."""
    stored = trace.to_dict()
    return {
        "agent": agent,
        "external_id": trace.trace_id,
        "session_id": trace.session_id[:MAX_ID_LENGTH],
        "prompt": [*trace.earlier, {"role": "user", "content": trace.user_query}],
        "response": trace.final_response,
        "tool_calls": stored["tool_calls"],
        "reasoning_steps": stored["reasoning_steps"],
        "tasks": task_events(trace),
        "tokens_in": min(trace.total_tokens_in, MAX_WHOLE_NUMBER) or None,
        "tokens_out": min(trace.total_tokens_out, MAX_WHOLE_NUMBER) or None,
        "llm_calls": trace.llm_calls_count or None,
        "cost": trace.total_cost or None,
        "duration_ms": min(round(trace.execution_duration_ms), MAX_WHOLE_NUMBER),
        "occurred_at": trace.timestamp,
    }


def task_events(trace: ExecutionTrace) -> list[dict[str, Any]]:
    """In the order in which they happened."""
    events = [TaskEvent(status=status, **task) for status in _STATUSES for task in getattr(trace, f"tasks_{status}")]
    return [asdict(event) for event in sorted(events, key=lambda event: event.timestamp)]


def _cut(value: Any, longest: int) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= longest else text[:longest] + CUT


def _to_json(stored: Any) -> bytes:
    return json.dumps(stored, ensure_ascii=False).encode("utf-8")
