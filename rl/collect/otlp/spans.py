"""Spans as plain data, whatever encoding they came in, and what the dialects make of them."""

import json
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
class SpanAnswer:
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


Tree = dict[str, Any]
LONGEST_KEPT = 1_000
MOST_KEPT = 100
LONGEST_RESULT = 20_000
"""Characters of a tool's arguments or result, as JSON."""


def text(attributes: Mapping[str, Any], *names: str) -> str:
    """The first of the attributes that is text."""
    return next((value for name in names if isinstance(value := attributes.get(name), str) and value), "")


def count(attributes: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_WHOLE_NUMBER:
            return value
    return None


def number(attributes: Mapping[str, Any], name: str) -> float | None:
    value = attributes.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None


def fit(value: Any, longest: int = LONGEST_RESULT) -> Any:
    """The value, or the beginning of its text where that is too long."""
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(written) <= longest else written[:longest] + " … (cut)"


def remaining_attributes(attributes: Mapping[str, Any], without: tuple[str, ...]) -> dict[str, Any]:
    """Attributes for the record, but those whose names start with one of ``without``: they are stored elsewhere."""
    rest = [(name, value) for name, value in attributes.items() if not name.startswith(without)]
    return {name[:200]: fit(value, LONGEST_KEPT) for name, value in rest[:MOST_KEPT]}


def tree(attributes: Mapping[str, Any], prefix: str) -> Tree:
    """``0.message.role`` and its like as nested objects."""
    root: Tree = {}
    for name, value in attributes.items():
        if not name.startswith(prefix):
            continue
        *path, leaf = name.removeprefix(prefix).split(".")[:10]
        node: Any = root
        for part in path:
            node = node.setdefault(part, {}) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.setdefault(leaf, value)
    return root


def items(numbered: Any) -> list[Tree]:
    """What stands under 0, 1, 2 …, in this order."""
    if not isinstance(numbered, dict):
        return []
    indices = sorted(int(name) for name in numbered if name.isascii() and name.isdigit() and len(name) < 6)
    return [numbered[str(index)] for index in indices if isinstance(numbered.get(str(index)), dict)]
