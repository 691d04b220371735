"""OpenInference's conventions: flat attributes such as ``llm.input_messages.0.message.content``.

https://arize-ai.github.io/openinference/spec/
"""

from collections.abc import Mapping
from typing import Any

from rl.base.errors import UsageError
from rl.collect.otlp.messages import (
    as_value,
    calls_in,
    message,
    messages_of,
    read_answer,
    read_parts,
    schema,
    unfold,
    with_calls,
)
from rl.collect.otlp.spans import Span, SpanAnswer, ToolRun, Tree, count, items, number, text, tree

CONTENT = ("llm.input_messages.", "llm.output_messages.", "llm.tools.", "input.value", "output.value")
"""Beginnings of attributes that hold texts."""


def read(span: Span) -> SpanAnswer | ToolRun | None:
    """None: a span of another dialect, or one that says nothing to learn from. Raises UsageError where the client left out
    a part of the messages."""
    kind = span.attributes.get("openinference.span.kind")
    if kind == "LLM":
        return _answer(span)
    return _tool_run(span) if kind == "TOOL" else None


def _answer(span: Span) -> SpanAnswer:
    if span.dropped_attributes:
        raise UsageError(
            f"the client left out {span.dropped_attributes} attributes, so that messages may be missing: "
            "set OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000"
        )
    attributes = span.attributes
    given = _entries(attributes, "llm.input_messages.")
    tools = (entry.get("tool") for entry in items(tree(attributes, "llm.tools.")))
    schemas = (schema(as_value(tool.get("json_schema"))) for tool in tools if isinstance(tool, dict))
    prompt = tuple(made for fields in given for made in messages_of({**fields, "parts": _parts(fields)}))
    if not prompt and (asked := _plain(attributes, "input")):
        prompt = (message("user", asked),)
    provided = _read_provided(attributes)
    own = whole if isinstance(whole := provided.get("message"), dict) else {}
    messages = [read_answer(_parts(fields), "\n") for fields in _entries(attributes, "llm.output_messages.")]
    thoughts = tuple(thought for answer in messages for thought in answer.thoughts)
    thoughts = thoughts or tuple(filter(None, [text(own, "reasoning_content", "reasoning")]))
    requested = tuple(call for answer in messages for call in answer.calls) or read_parts(calls_in(own)).calls
    words = next((answer.text for answer in messages if answer.text), "")  # others are alternatives
    return SpanAnswer(
        prompt=prompt,
        response=with_calls(words, requested) or _plain(attributes, "output"),
        requested=requested,
        tools=tuple(filter(None, schemas)),
        reasoning=thoughts,
        finish_reason=text(attributes, "llm.finish_reason")
        or text(provided, "finish_reason", "stop_reason", "status")
        or ("incomplete" if own else ""),
        model=text(attributes, "llm.model_name"),
        response_id=text(provided, "id"),
        session_id=text(attributes, "session.id"),
        agent_name=text(attributes, "agent.name"),
        tokens_in=count(attributes, "llm.token_count.prompt"),
        tokens_out=count(attributes, "llm.token_count.completion"),
        cost=number(attributes, "llm.cost.total"),
    )


def _plain(attributes: Mapping[str, Any], side: str) -> str:
    """The plain text of a span that was made by hand. JSON there is the provider's own request, not a text."""
    return "" if attributes.get(f"{side}.mime_type") == "application/json" else text(attributes, f"{side}.value")


def _read_provided(attributes: Mapping[str, Any]) -> Tree:
    """The provider's own answer, which stands there whole as JSON: the first choice of OpenAI's, with its id, or
    Anthropic's, or what LangChain knows of it."""
    output = as_value(attributes.get("output.value"))
    if not isinstance(output, dict):
        return {}
    if isinstance(choices := output.get("choices"), list):
        first = choices[0] if choices and isinstance(choices[0], dict) else {}
        return {**first, "id": output.get("id")}
    if "output" in output or "content" in output:
        return output
    try:
        known = output["generations"][0][0]["message"]["kwargs"]["response_metadata"]
    except (KeyError, IndexError, TypeError):
        return {}
    return known if isinstance(known, dict) else {}


def _entries(attributes: Mapping[str, Any], prefix: str) -> list[Tree]:
    messages = (entry.get("message") for entry in items(tree(attributes, prefix)))
    return [fields for fields in messages if isinstance(fields, dict)]


def _parts(fields: Tree) -> list[Any]:
    """As OpenTelemetry has them. Some clients tell a call twice: in the message, and among its contents."""
    entries = [(part, part.get("message_content")) for part in items(fields.get("contents"))]
    contents = [{**part, **content} for part, content in entries if isinstance(content, dict)]
    inner = [_call(part) if "tool_call" in part else part for part in contents]
    words = [text(fields, "content")] if text(fields, "content") else inner
    calls = [_call(call) for call in items(fields.get("tool_calls"))]
    if old := text(fields, "function_call_name"):
        calls.append({"type": "tool_call", "name": old, "arguments": fields.get("function_call_arguments_json")})
    return [*(part for part in words if part not in calls), *calls]


def _call(call: Tree) -> Tree:
    inner = call.get("tool_call")
    inner = inner if isinstance(inner, dict) else {}
    function = inner.get("function")
    function = function if isinstance(function, dict) else {}
    named = {"id": inner.get("id"), "name": function.get("name"), "arguments": function.get("arguments")}
    return {"type": "tool_call", **named}


def _tool_run(span: Span) -> ToolRun:
    attributes = span.attributes
    output = as_value(attributes.get("output.value"))
    # LangChain wraps what its tools return in a message of its own
    data = output.get("data") if isinstance(output, dict) and output.get("type") == "tool" else None
    wrapped = data if isinstance(data, dict) and "content" in data else {}
    errors = (text(event.attributes, "exception.message") for event in span.events if event.name == "exception")
    return ToolRun(
        name=text(attributes, "tool.name") or span.name,
        call_id=text(attributes, "tool_call.id", "tool.id") or text(wrapped, "tool_call_id"),
        arguments=unfold(as_value(attributes.get("tool_call.function.arguments", attributes.get("input.value")))),
        result=wrapped.get("content") if wrapped else output,
        failed=span.failed or wrapped.get("status") == "error",
        error=span.status_message or next(errors, ""),
    )
