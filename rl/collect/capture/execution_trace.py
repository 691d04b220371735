"""One run of an agent as its trace file holds it: ``{data_dir}/rl_traces/YYYY-MM-DD/{trace_id}.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from rl.base.errors import UsageError
from rl.base.records import Message, ReasoningStep, ToolCall
from rl.base.slugs import check_slug


@dataclass
class ExecutionTrace:
    trace_id: str
    session_id: str = ""
    timestamp: str = ""
    """When the run began: ISO 8601, UTC."""
    user_query: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    reasoning_steps: list[ReasoningStep] = field(default_factory=list)
    tasks_created: list[dict[str, Any]] = field(default_factory=list)
    """Each {task_id, type, description, timestamp}; those completed also have ``result``, those failed ``error``."""
    tasks_completed: list[dict[str, Any]] = field(default_factory=list)
    tasks_failed: list[dict[str, Any]] = field(default_factory=list)
    final_response: str = ""
    total_tokens_in: int = 0
    total_tokens_out: int = 0
    total_cost: float = 0.0
    execution_duration_ms: float = 0.0
    llm_calls_count: int = 0
    label: bool | None = None
    reward_score: float | None = None
    """0 to 1."""
    manual_review: bool = False
    review_notes: str = ""
    earlier: list[Message] = field(default_factory=list)
    """Chat messages before the question; a file without any does not have the name."""

    def to_dict(self) -> dict[str, Any]:
        """Shares its values with the trace: ``dataclasses.asdict`` would copy them, which takes ten times as long."""
        stored = {name: getattr(self, name) for name in _NAMES[type(self)]}
        stored["tool_calls"] = [_shallow(call) for call in self.tool_calls]
        stored["reasoning_steps"] = [_shallow(step) for step in self.reasoning_steps]
        if not self.earlier:
            del stored["earlier"]
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ExecutionTrace:
        """Names that a trace does not have are left out. Raises UsageError for what is not a trace."""
        if not isinstance(stored, Mapping):
            raise UsageError("a trace is a JSON object")
        known = {name: value for name, value in _known_fields(cls, stored).items() if value is not None}
        _check_types(known)
        check_slug(known.get("trace_id", ""), "trace id")
        for name, record in (("tool_calls", ToolCall), ("reasoning_steps", ReasoningStep)):
            known[name] = [_record(record, item, name) for item in _objects(known, name)]
        for name in ("tasks_created", "tasks_completed", "tasks_failed"):
            known[name] = [dict(item) for item in _objects(known, name)]
        known["earlier"] = earlier_messages(known)
        return cls(**known)


def earlier_messages(stored: Mapping[str, Any]) -> list[Message]:
    """Raises UsageError."""
    messages = _objects(stored, "earlier")
    if not all(isinstance(message.get(name), str) for message in messages for name in ("role", "content")):
        raise UsageError("earlier must be a list of chat messages, each with role and content")
    return [Message(role=message["role"], content=message["content"]) for message in messages]


_NAMES: dict[type, tuple[str, ...]] = {
    cls: tuple(attribute.name for attribute in fields(cls)) for cls in (ExecutionTrace, ToolCall, ReasoningStep)
}


def _check_types(known: Mapping[str, Any]) -> None:
    for attribute in fields(ExecutionTrace):
        value = known.get(attribute.name, attribute.default)
        if isinstance(attribute.default, str) and not isinstance(value, str):
            raise UsageError(f"{attribute.name} must be text")
        if type(attribute.default) in (int, float) and not isinstance(value, (int, float)):
            raise UsageError(f"{attribute.name} must be a number")


def _shallow(record: ToolCall | ReasoningStep) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _NAMES[type(record)]}


def _known_fields(cls: type, stored: Mapping[str, Any]) -> dict[str, Any]:
    return {name: stored[name] for name in _NAMES[cls] if name in stored}


def _objects(stored: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    items = stored.get(name) or []
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise UsageError(f"{name} must be a list of objects")
    return items


def _record(cls: type, item: Mapping[str, Any], name: str) -> Any:
    known = {
        key: tuple(value) if isinstance(value, list) and cls is ReasoningStep else value
        for key, value in _known_fields(cls, item).items()
    }
    if not isinstance(item.get(_NAMES[cls][0]), str):
        raise UsageError(f"{name}: each needs a text as its {_NAMES[cls][0]}")
    return cls(**known)


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
