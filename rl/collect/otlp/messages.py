"""Chat messages as the dialects write them, as text that a model can learn from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rl.base.errors import UsageError
from rl.base.messages import as_data, write_call
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


def full_message(role: object, text: str, requested: Iterable[Requested] = (), call_id: str = "") -> Message:
    """As ``message``, with the calls as data beside the words. ``call_id``: of a tool's result. Raises UsageError."""
    calls = list(requested)
    made = message(role, text, calls)
    if calls:
        made["tool_calls"] = calls_as_data(calls)
    if call_id and made["role"] == "tool":
        made["tool_call_id"] = call_id
    return made


def arguments_of(call: Requested) -> dict[str, Any]:
    """What came without names stands under the one that tools with a single input have."""
    if call.arguments is None or call.arguments == "":
        return {}
    return call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}


def calls_as_data(requested: Iterable[Requested]) -> list[dict[str, Any]]:
    return [as_data(call.name, arguments_of(call), call.id) for call in requested]


def with_calls(text: str, requested: Iterable[Requested]) -> str:
    """Tool calls stand behind the text, each in a ``<tool_call>`` element: the markup that chat models are trained on."""
    return "\n".join([*([text] if text else []), *(write_call(call.name, call.arguments or {}) for call in requested)])


def schema(value: object) -> dict[str, Any] | None:
    """The schema of a tool as chat templates take it, from OpenAI's form or OpenTelemetry's; None for anything else."""
    value = as_value(value)
    function = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None
    parameters = function.get("parameters", function.get("input_schema", function.get("inputSchema")))
    known = {"name": function["name"], "description": as_text(function.get("description"))}
    shape = parameters if isinstance(parameters, dict) else {"type": "object", "properties": {}}
    return {"type": "function", "function": {**known, "parameters": shape}}


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
