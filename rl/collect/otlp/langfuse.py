"""Langfuse's own observations: ``langfuse.observation.*``, whose input and output are text or JSON.

https://langfuse.com/integrations/native/opentelemetry
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rl.collect.otlp.messages import (
    as_result,
    as_text,
    as_value,
    calls_in,
    message,
    messages_of,
    parts_of,
    read_answer,
    schema,
    unfold,
    with_calls,
)
from rl.collect.otlp.spans import Span, SpanAnswer, ToolRun, count, number, text

CONTENT: Final = ("langfuse.observation.input", "langfuse.observation.output")
"""Attributes that hold texts."""
_ABOUT: Final = "langfuse.observation."
_THOUGHTS: Final = ("reasoning_content", "reasoning")


def read(span: Span) -> SpanAnswer | ToolRun | None:
    """None: a span of another dialect, or one that says nothing to learn from. Raises UsageError for messages that are
    not messages."""
    kind = span.attributes.get(_ABOUT + "type")
    if kind == "generation":
        return _answer(span.attributes)
    return _tool_run(span) if kind == "tool" else None


def _answer(attributes: Mapping[str, Any]) -> SpanAnswer:
    given = _only_argument(as_value(attributes.get(CONTENT[0])))
    offered = given.get("tools") if isinstance(given, dict) else None
    answer = read_answer(_said(as_value(attributes.get(CONTENT[1]))), "\n")
    usage, costs = (_object(attributes, name) for name in ("usage_details", "cost_details"))
    failed = text(attributes, _ABOUT + "level") == "ERROR"
    return SpanAnswer(
        prompt=tuple(_prompt(given)),
        response=with_calls(answer.text, answer.calls),
        requested=answer.calls,
        tools=tuple(filter(None, map(schema, offered if isinstance(offered, list) else ()))),
        reasoning=answer.thoughts,
        finish_reason="error" if failed else as_text(as_result(attributes.get(_ABOUT + "metadata.finish_reason"))),
        model=text(attributes, _ABOUT + "model.name"),
        session_id=text(attributes, "session.id"),
        tokens_in=count(usage, "input", "prompt_tokens", "input_tokens"),
        tokens_out=count(usage, "output", "completion_tokens", "output_tokens"),
        cost=number(costs, "total"),
    )


def _only_argument(given: Any) -> Any:
    """The question itself where a function with one argument is observed as a generation."""
    call = unfold(given)
    if call is given or not isinstance(call, dict):
        return given
    values = [*call.pop("args", ()), *call.values()]
    return values[0] if len(values) == 1 else given


def _prompt(given: Any) -> Iterator[Any]:
    entries = _full_entries(given.get("messages") if isinstance(given, dict) else given)
    if entries:
        for entry in entries:
            yield from messages_of(entry)
    elif words := as_text(given):
        yield message("user", words)


def _full_entries(entries: Any) -> list[dict[str, Any]]:
    """Empty for what are not messages. Those of LangChain's tools come without role and id: they are in the order of their
    calls."""
    full: list[dict[str, Any]] = []
    calls: list[str] = []
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or not ("role" in entry or (calls and "content" in entry)):
            return []
        if entry.get("role", "tool") == "tool" and calls:
            entry = {"role": "tool", "tool_call_id": calls.pop(0), **entry}
        elif entry["role"] == "assistant":
            calls = [as_text(call.get("id")) for call in calls_in(entry)]
        full.append(entry)
    return full


def _said(output: Any) -> Iterator[Any]:
    """The parts of a text, of a message, or of the items of a response."""
    for item in output if isinstance(output, list) else [output]:
        if isinstance(item, dict) and ("role" in item or "content" in item or "tool_calls" in item):
            yield {"type": "reasoning", "text": text(item, *_THOUGHTS)}
            yield from parts_of(item)
        elif isinstance(item, dict) and item.get("type") in ("reasoning", "function_call"):
            yield {"text": item.get("summary"), **item}
        else:
            yield as_text(item)


def _tool_run(span: Span) -> ToolRun:
    attributes = span.attributes
    error = text(attributes, _ABOUT + "status_message")
    return ToolRun(
        name=span.name,
        arguments=unfold(as_value(attributes.get(CONTENT[0]))),
        result=as_value(attributes.get(CONTENT[1])),
        failed=span.failed or text(attributes, _ABOUT + "level") == "ERROR",
        error=span.status_message or error,
    )


def _object(attributes: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = as_value(attributes.get(_ABOUT + name))
    return value if isinstance(value, dict) else {}
