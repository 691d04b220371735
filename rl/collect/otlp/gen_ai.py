"""OpenTelemetry's own conventions for generative AI: ``gen_ai.*`` attributes.

https://github.com/open-telemetry/semantic-conventions-genai
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rl.base.errors import UsageError
from rl.base.records import Message
from rl.collect.otlp.messages import as_text, as_value, full_message, message, schema, with_calls
from rl.collect.otlp.spans import Answer, Requested, Span, ToolRun
from rl.collect.otlp.values import count, number, text

MODEL_CALLS = ("chat", "text_completion", "generate_content")
CONTENT = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions")
"""Attributes that hold texts."""
_TEXT_PARTS = ("content", "text")


def read(span: Span) -> Answer | ToolRun | None:
    """None: a span of another dialect, or one that says nothing to learn from. Raises UsageError for messages that are
    not messages."""
    operation = span.attributes.get("gen_ai.operation.name")
    if operation in MODEL_CALLS:
        return _answer(span, "model")
    if operation == "invoke_agent":
        return _answer(span, "agent")
    return _tool_run(span) if operation == "execute_tool" else None


def _answer(span: Span, kind: Any) -> Answer:
    attributes = span.attributes
    messages = _messages(attributes, "gen_ai.output.messages")
    first = messages[0] if messages else {}  # the others are alternatives
    requested = tuple(_requested_calls(first))
    return Answer(
        kind=kind,
        prompt=_prompt(attributes),
        response=with_calls(_content(first), requested),
        requested=requested,
        tools=tuple(_tools(attributes)),
        reasoning=tuple(as_text(part.get("content")) for part in _parts(first) if part.get("type") == "reasoning"),
        model=text(attributes, "gen_ai.response.model", "gen_ai.request.model"),
        response_id=text(attributes, "gen_ai.response.id"),
        session_id=text(attributes, "gen_ai.conversation.id", "session.id"),
        agent_name=text(attributes, "gen_ai.agent.name"),
        tokens_in=count(attributes, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        tokens_out=count(attributes, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        cost=number(attributes, "gen_ai.usage.cost"),
    )


def _prompt(attributes: Mapping[str, Any]) -> tuple[Message, ...]:
    rules = _content({"parts": _list(attributes, "gen_ai.system_instructions")})
    messages = [full for entry in _messages(attributes, CONTENT[0]) for full in _full_messages(entry)]
    return (*([message("system", rules)] if rules else []), *messages)


def _full_messages(entry: Mapping[str, Any]) -> Iterator[Message]:
    """One, or as many as it has results of tools."""
    results = [part for part in _parts(entry) if part.get("type") == "tool_call_response"]
    if len(results) < 2:
        call_id = as_text(results[0].get("id")) if results else ""
        yield full_message(entry.get("role"), _content(entry), _requested_calls(entry), call_id)
        return
    for result in results:
        yield full_message(entry.get("role"), _part(result), (), as_text(result.get("id")))


def _tools(attributes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        definitions = _list(attributes, CONTENT[3])
    except UsageError:  # cut off; the messages are worth more
        return
    yield from filter(None, map(schema, definitions))


def _messages(attributes: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [entry for entry in _list(attributes, name) if isinstance(entry, dict)]


def _list(attributes: Mapping[str, Any], name: str) -> list[Any]:
    """Structured, or JSON text where the client's attributes cannot be structured."""
    value = attributes.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise UsageError(
                f"{name} is not JSON; was it cut off? OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT must not be set"
            ) from None
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def _parts(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    parts = entry.get("parts")
    yield from (part for part in (parts if isinstance(parts, list) else ()) if isinstance(part, dict))


def _content(entry: Mapping[str, Any]) -> str:
    """The text of all parts; what is not text is named in brackets."""
    return "\n".join(filter(None, map(_part, _parts(entry))))


def _part(part: Mapping[str, Any]) -> str:
    kind = part.get("type", "text")
    if kind == "text":
        return as_text(next((part[name] for name in _TEXT_PARTS if name in part), None))
    if kind == "tool_call_response":
        return as_text(part.get("response", part.get("result")))
    if kind in ("tool_call", "reasoning"):
        return ""
    return f"[{as_text(part.get('modality')) or as_text(kind)}]"


def _requested_calls(entry: Mapping[str, Any]) -> Iterator[Requested]:
    for part in _parts(entry):
        if part.get("type") == "tool_call":
            yield Requested(as_text(part.get("name")), as_value(part.get("arguments")), as_text(part.get("id")))


def _tool_run(span: Span) -> ToolRun:
    attributes = span.attributes
    error = text(attributes, "error.type")
    return ToolRun(
        name=text(attributes, "gen_ai.tool.name") or span.name.removeprefix("execute_tool "),
        call_id=text(attributes, "gen_ai.tool.call.id"),
        arguments=as_value(attributes.get("gen_ai.tool.call.arguments")),
        result=as_value(attributes.get("gen_ai.tool.call.result")),
        failed=span.failed or bool(error),
        error=span.status_message or error,
    )
