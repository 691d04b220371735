"""Spans as plain data, whatever encoding they came in, and what the dialects make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from rl.base.records import Message
from rl.collect.limits import MAX_WHOLE_NUMBER


@dataclass(frozen=True, slots=True)
class SpanEvent:
    name: str
    attributes: Mapping[str, Any]
    time: int
    """Nanoseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    trace_id: str
    """32 hexadecimal digits; ``span_id`` has 16, ``parent_id`` 16 or none."""
    span_id: str
    parent_id: str = ""
    name: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    resource: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    scope: str = ""
    """The instrumentation that made it."""
    start: int = 0
    """Nanoseconds since 1970; 0: not known."""
    end: int = 0
    failed: bool = False
    status_message: str = ""
    dropped_attributes: int = 0
    """How many the client threw away, because its limit was reached."""

    @property
    def where(self) -> str:
        return f"span {self.span_id}"

    @property
    def duration_ms(self) -> int | None:
        """None: not known, or longer than the database can say (24 days)."""
        milliseconds = round((self.end - self.start) / 1e6)
        return milliseconds if self.start > 0 and 0 <= milliseconds <= MAX_WHOLE_NUMBER else None


@dataclass(frozen=True, slots=True)
class Requested:
    """A tool call that a model asked for."""

    name: str
    arguments: Any = None
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model (or an agent as a whole) was given and what it said. Without messages the content was not captured."""

    kind: Literal["model", "agent"] = "model"
    prompt: tuple[Message, ...] = ()
    """With calls of tools both in its words and as data."""
    response: str = ""
    requested: tuple[Requested, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    """Schemas of those that it was offered."""
    reasoning: tuple[str, ...] = ()
    finish_reason: str = ""
    """Why the model ended, in its server's word."""
    model: str = ""
    response_id: str = ""
    session_id: str = ""
    agent_name: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    name: str
    call_id: str = ""
    """The id that the model gave its request; empty where the client does not say."""
    arguments: Any = None
    result: Any = None
    failed: bool = False
    error: str = ""


def moment(nanoseconds: int) -> datetime | None:
    """In UTC, to the microsecond."""
    return datetime.fromtimestamp(nanoseconds // 1000 / 1_000_000, UTC) if nanoseconds > 0 else None
