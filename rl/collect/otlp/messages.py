"""Chat messages as the dialects write them, as text that a model can learn from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.base.records import Message
from rl.collect.otlp.spans import Requested

_ROLES: Mapping[str, str] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool-call": "assistant",
    "tool": "tool",
    "function": "tool",
    "tool-response": "tool",
}
"""The names that providers and frameworks have for the four roles."""


def message(role: object, text: str, requested: Iterable[Requested] = ()) -> Message:
    """Raises UsageError for a role that nobody knows."""
    known = _ROLES.get(role.lower()) if isinstance(role, str) else None
    if known is None:
        raise UsageError(unknown_name("message role", role, _ROLES))
    return Message(role=known, content=with_calls(text, requested))


def with_calls(text: str, requested: Iterable[Requested]) -> str:
    """Tool calls stand behind the text, each in a ``<tool_call>`` element: the markup that chat models are trained on."""
    return "\n".join([*([text] if text else []), *map(_markup, requested)])


def as_text(value: object) -> str:
    """Text as it is; anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def as_value(value: object) -> Any:
    """The object or list that is written as JSON text; other text stays text: a tool may well answer "42"."""
    if not isinstance(value, str) or not value.startswith(("{", "[")):
        return value
    try:
        return json.loads(value, parse_constant=lambda name: None)  # NaN and Infinity are not JSON
    except (ValueError, RecursionError):
        return value


def _markup(call: Requested) -> str:
    body = json.dumps({"name": call.name, "arguments": call.arguments or {}}, ensure_ascii=False)
    return f"<tool_call>{body}</tool_call>"
