"""One run of an agent under ToolBoxV2's names, and the way to and from Ratchet's own records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from rl.base import records as core
from rl.collect.capture import execution_trace as trace_file
from rl.from_systems.toolbox.trace_file import unfold_tool_calls


@dataclass
class ToolCallTrace:
    tool_name: str
    arguments: Any
    result: Any
    success: bool
    duration_ms: float
    error: str | None = None
    timestamp: str = ""


@dataclass
class ReasoningStep:
    step_type: str
    content: str
    confidence: float = 0.0
    insights: list[str] = field(default_factory=list)
    issues: list[str] = field(default_factory=list)


@dataclass
class ExecutionTrace(trace_file.ExecutionTrace):
    trace_id: str = ""
    """Empty: the first 12 hexadecimal digits of an MD5 of session, query and time."""
    tool_calls: list[ToolCallTrace] = field(default_factory=list)  # type: ignore[assignment]
    reasoning_steps: list[ReasoningStep] = field(default_factory=list)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not self.trace_id:
            text = f"{self.session_id}:{self.user_query}:{self.timestamp}"
            self.trace_id = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:12]

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "earlier"}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ExecutionTrace:
        """Raises UsageError for what is not a trace."""
        unfolded = unfold_tool_calls(stored) if isinstance(stored, Mapping) else stored
        return from_core(trace_file.ExecutionTrace.from_dict(unfolded))


def from_core(trace: trace_file.ExecutionTrace) -> ExecutionTrace:
    values = {item.name: getattr(trace, item.name) for item in fields(ExecutionTrace)}
    values["tool_calls"] = [_tool_call(call) for call in trace.tool_calls]
    values["reasoning_steps"] = [_step(step) for step in trace.reasoning_steps]
    return ExecutionTrace(**values)


def trace_record(trace: ExecutionTrace) -> core.TraceRecord:
    """What a reward may look at. A label is not among it: it is what a reward is compared with."""
    return core.TraceRecord(
        id=trace.trace_id,
        agent="",
        prompt=(core.Message(role="user", content=trace.user_query),),
        response=trace.final_response,
        tool_calls=tuple(
            core.ToolCall(
                call.tool_name,
                call.arguments,
                call.result,
                bool(call.success),
                call.duration_ms,
                call.error or "",
                call.timestamp,
            )
            for call in trace.tool_calls
        ),
        reasoning_steps=tuple(
            core.ReasoningStep(step.content, step.step_type, step.confidence, tuple(step.insights), tuple(step.issues))
            for step in trace.reasoning_steps
        ),
        tasks=tuple(_task_events(trace)),
        tokens_in=trace.total_tokens_in or None,
        tokens_out=trace.total_tokens_out or None,
        llm_calls=trace.llm_calls_count or None,
        cost=trace.total_cost or None,
        duration_ms=round(trace.execution_duration_ms) or None,
    )


def trace_of(record: core.TraceRecord) -> ExecutionTrace:
    """For a reward that was written for ToolBoxV2's traces."""
    tasks: dict[str, list[dict[str, Any]]] = {"created": [], "completed": [], "failed": []}
    for event in record.tasks:
        tasks[event.status].append({name: value for name, value in asdict(event).items() if name != "status"})
    return ExecutionTrace(
        trace_id=record.id,
        user_query=record.question,
        tool_calls=[_tool_call(call) for call in record.tool_calls],
        reasoning_steps=[_step(step) for step in record.reasoning_steps],
        tasks_created=tasks["created"],
        tasks_completed=tasks["completed"],
        tasks_failed=tasks["failed"],
        final_response=record.response,
        total_tokens_in=record.tokens_in or 0,
        total_tokens_out=record.tokens_out or 0,
        total_cost=record.cost or 0.0,
        execution_duration_ms=float(record.duration_ms or 0),
        llm_calls_count=record.llm_calls or 0,
    )


def _tool_call(call: core.ToolCall) -> ToolCallTrace:
    return ToolCallTrace(
        call.tool_name,
        call.arguments,
        call.result,
        call.success,
        call.duration_ms or 0.0,
        call.error or None,
        call.timestamp,
    )


def _step(step: core.ReasoningStep) -> ReasoningStep:
    return ReasoningStep(step.step_type, step.content, step.confidence or 0.0, list(step.insights), list(step.issues))


def _task_events(trace: ExecutionTrace) -> Iterator[core.TaskEvent]:
    statuses: tuple[Literal["created", "completed", "failed"], ...] = ("created", "completed", "failed")
    for status in statuses:
        for task in getattr(trace, f"tasks_{status}"):
            task_id = task.get("task_id") or task.get("id") or ""
            names = ("type", "description", "timestamp", "error")
            texts = {name: str(task.get(name) or "") for name in names}
            yield core.TaskEvent(str(task_id), status, result=task.get("result"), **texts)
