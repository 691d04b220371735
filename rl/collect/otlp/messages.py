"""Chat messages as the dialects write them, as text that a model can learn from: what is said, what is thought, and which
tools are called. Each system names these parts its own way."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from rl.base.errors import UsageError
from rl.base.messages import as_data, write_call
from rl.base.names import unknown_name
from rl.base.records import Message
from rl.collect.otlp.spans import Requested

_ROLES: Mapping[str, str] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "model", "tool-call"), "assistant"),
    **dict.fromkeys(("tool", "function", "tool-response"), "tool"),
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
        return json.loads(value, parse_constant=lambda _: None)  # NaN and Infinity are not JSON
    except (ValueError, RecursionError):
        return value


def as_result(value: object) -> Any:
    """As ``as_value``; of the AI SDK, which writes texts as JSON too, the text."""
    quoted = as_value(f"[{value}]") if isinstance(value, str) and value.startswith('"') else None
    return quoted[0] if isinstance(quoted, list) and len(quoted) == 1 else as_value(value)


def unfold(arguments: Any) -> Any:
    """Smolagents and Langfuse record how a function was called: ``{"args": [], "kwargs": {…}, …}``."""
    if (
        isinstance(arguments, dict)
        and isinstance(arguments.get("kwargs"), dict)
        and isinstance(arguments.get("args"), list)
    ):
        return {**arguments["kwargs"], **({"args": arguments["args"]} if arguments["args"] else {})}
    return arguments


_TEXTS: Final = ("text", "output_text", "input_text", "refusal")
_THOUGHTS: Final = ("thinking", "reasoning", "thought", "reasoning_text", "reasoning_content", "redacted_thinking")
_CUSTOM: Final = "custom_tool_call"
_CALLS: Final = ("tool_call", "tool_use", "function_call", "tool-call", _CUSTOM)
_RESULTS: Final = ("tool_call_response", "tool_result", "tool-result", "function_call_output", f"{_CUSTOM}_output")
Part = Mapping[str, Any]


class Parts(NamedTuple):
    text: str
    thoughts: tuple[str, ...]
    calls: tuple[Requested, ...]
    others: tuple[str, ...]
    """Kinds of what is none of these, such as pictures."""


def read_parts(parts: Iterable[Any], between: str = "", names_others: bool = False) -> Parts:
    """``between``: what stands between two texts; a model's own go on in mid-sentence. ``names_others``: in brackets, where
    they stand."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Requested] = []
    others: list[str] = []
    for part in parts:
        kind = _kind_of(part)
        if kind in _TEXTS:
            texts.append(_words(part))
        elif kind in _THOUGHTS:
            thoughts.append(_words(part))
        elif kind in _CALLS and (name := as_text(_first(part, "name", "toolName"))):
            given, call_id = _first(part, "arguments", "input", "args"), _first(part, "id", "toolCallId", "call_id")
            arguments = {"input": as_text(given)} if kind == _CUSTOM else as_value(given)
            calls.append(Requested(name, arguments, as_text(call_id)))
        elif kind in _RESULTS:
            texts.append(_result_of(part)[0])
        else:
            others.append(as_text(part.get("modality")) or kind if isinstance(part, Mapping) else kind)
            texts += [f"[{others[-1]}]"] if names_others else []
    return Parts(between.join(filter(None, texts)), tuple(filter(None, thoughts)), tuple(calls), tuple(others))


def read_answer(parts: Iterable[Any], between: str = "") -> Parts:
    """What a model said. Raises UsageError where nothing of it is text, and where it only thought."""
    read = read_parts(parts, between)
    if read.text.strip() or read.calls or not (read.others or read.thoughts):
        return read
    what = f"is of the kind {read.others[0][:50]!r}" if read.others else "is a thought alone"
    raise UsageError(f"its answer {what}, and only text can be learned from")


def parts_of(entry: Mapping[str, Any]) -> list[Any]:
    """Those of a message: OpenTelemetry's ``parts``, or the ``content`` and ``tool_calls`` of OpenAI's form."""
    parts = entry.get("parts", entry.get("content"))
    parts = [parts] if isinstance(parts, str) else parts if isinstance(parts, list) else []
    return [*parts, *calls_in(entry)]


def calls_in(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Those of a message in OpenAI's form, as parts: of functions, of custom tools, whose input is a text, and the single
    call that came before both. Some servers say the same in the old form and the new."""
    listed, old = entry.get("tool_calls"), entry.get("function_call")
    for call in listed if isinstance(listed, list) and listed else [{"function": old}]:
        known = call if isinstance(call, dict) else {}
        inner = known.get("function", known)
        if isinstance(custom := known.get("custom"), dict):
            inner = {"name": custom.get("name"), "arguments": {"input": as_text(custom.get("input"))}}
        if isinstance(inner, dict) and inner:
            yield {**inner, "id": known.get("id"), "type": "tool_call"}


def messages_of(entry: Mapping[str, Any]) -> Iterator[Message]:
    """One of a prompt, or as many as it has results of tools. Raises UsageError for a role that nobody knows."""
    parts = parts_of(entry)
    results = [part for part in parts if _kind_of(part) in _RESULTS]
    if len(results) > 1:
        for result in results:
            yield full_message(entry.get("role"), _result_of(result)[0], (), _result_of(result)[1])
        return
    read = read_parts(parts, "\n", names_others=True)
    call_id = _result_of(results[0])[1] if results else as_text(_first(entry, "tool_call_id", "id"))
    yield full_message(entry.get("role"), read.text, read.calls, call_id)


def _kind_of(part: Any) -> str:
    if isinstance(part, str):
        return "text"
    return as_text(part.get("type", "text")) if isinstance(part, Mapping) else "part"


def _result_of(part: Part) -> tuple[str, str]:
    """What a tool gave back, and the id of the call."""
    value = _first(part, "response", "result", "output", "content")
    if isinstance(value, Mapping) and set(value) == {"type", "value"}:
        value = value["value"]
    words = _texts_in(value) if isinstance(value, list) else ""
    return words or as_text(value), as_text(_first(part, "id", "tool_use_id", "toolCallId", "call_id"))


def _words(part: Any) -> str:
    """What a text says, or a thought, which may have parts of its own."""
    if not isinstance(part, Mapping):
        return as_text(part)
    value = _first(part, "text", "content", "thinking", "reasoning", "refusal")
    return _texts_in(value) if isinstance(value, list) else as_text(value)


def _texts_in(parts: Iterable[Any]) -> str:
    return "".join(as_text(part.get("text")) for part in parts if isinstance(part, Mapping))


def _first(part: Part, *names: str) -> Any:
    return next((part[name] for name in names if part.get(name) is not None), None)
