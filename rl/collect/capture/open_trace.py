"""A trace while its run goes on. Threads and tasks of the run append to it together, which needs no lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from rl.base.records import Message, ReasoningStep, ToolCall
from rl.collect.capture.execution_trace import ExecutionTrace

MOST_EVENTS = 1000
"""Tool calls, reasoning steps, tasks of each status: an agent in a loop does not fill the memory."""


def now() -> str:
    return datetime.now(UTC).isoformat()


@dataclass(eq=False, slots=True)
class OpenTrace:
    trace_id: str
    session_id: str
    user_query: str
    outer: OpenTrace | None = None
    """The run that this one began in: another agent's."""
    owner: object = None
    """Which hook opened it; None: a person's own call."""
    timestamp: str = field(default_factory=now)
    started: float = field(default_factory=perf_counter)
    tool_calls: list[ToolCall] = field(default_factory=list)
    reasoning_steps: list[ReasoningStep] = field(default_factory=list)
    tasks: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {"created": [], "completed": [], "failed": []}
    )
    llm_calls: list[tuple[int, int, float]] = field(default_factory=list)
    """Tokens in, tokens out, cost."""
    earlier: list[Message] = field(default_factory=list)
    finished: bool = False

    def add(self, events: list[Any], event: object) -> bool:
        """False: there are too many already, or the run is over."""
        if self.finished or len(events) >= MOST_EVENTS:
            return False
        events.append(event)
        return True

    def finish(self, final_response: str) -> ExecutionTrace:
        self.finished = True
        return self.so_far(final_response)

    def so_far(self, final_response: str = "") -> ExecutionTrace:
        calls = list(self.llm_calls)
        return ExecutionTrace(
            trace_id=self.trace_id,
            session_id=self.session_id,
            timestamp=self.timestamp,
            user_query=self.user_query,
            earlier=list(self.earlier),
            tool_calls=list(self.tool_calls),
            reasoning_steps=list(self.reasoning_steps),
            tasks_created=list(self.tasks["created"]),
            tasks_completed=list(self.tasks["completed"]),
            tasks_failed=list(self.tasks["failed"]),
            final_response=final_response,
            total_tokens_in=sum(tokens for tokens, _, _ in calls),
            total_tokens_out=sum(tokens for _, tokens, _ in calls),
            total_cost=float(sum(cost for _, _, cost in calls)),
            execution_duration_ms=milliseconds_since(self.started),
            llm_calls_count=len(calls),
        )


def milliseconds_since(started: float) -> float:
    return round((perf_counter() - started) * 1000, 3)
