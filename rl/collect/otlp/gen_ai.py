"""OpenTelemetry's own conventions for generative AI: ``gen_ai.*`` attributes.

https://github.com/open-telemetry/semantic-conventions-genai
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from rl.base.errors import UsageError
from rl.collect.otlp.messages import (
    as_result,
    as_text,
    as_value,
    message,
    messages_of,
    parts_of,
    read_answer,
    read_parts,
    schema,
    with_calls,
)
from rl.collect.otlp.spans import Span, SpanAnswer, SpanEvent, ToolRun, count, items, number, text, tree

_AI_SDK: Final = "gen_ai"
"""The scope of Vercel's AI SDK since its version 7."""
_CALLS_BESIDE: Final = {name: f"gen_ai.completion.{{}}.function_call.{name}" for name in ("name", "arguments")}
_TOOLS_BESIDE: Final = {name: f"llm.request.functions.{{}}.{name}" for name in ("name", "description", "parameters")}


def read(span: Span) -> SpanAnswer | ToolRun | None:
    """None: a span of another dialect, or one that says nothing to learn from. Raises UsageError for messages that are
    not messages."""
    operation = span.attributes.get("gen_ai.operation.name") or span.attributes.get("llm.request.type")
    if operation in ("chat", "text_completion", "completion", "generate_content"):
        return _answer(span, "model")
    if operation == "invoke_agent":
        return _answer(span, "agent")
    return _tool_run(span) if operation == "execute_tool" else None


def _answer(span: Span, kind: Literal["model", "agent"]) -> SpanAnswer:
    attributes = {**messages_on_events(span.events), **_read_numbered_messages(span.attributes), **span.attributes}
    messages = _messages(attributes, CONTENT[1])
    before, last = _split_run(messages) if kind == "agent" else ([], messages[0] if messages else {})
    parts = parts_of(last)
    beside = () if kind == "agent" or read_parts(parts).calls else _read_numbered(attributes, _CALLS_BESIDE)
    answer = read_answer([*parts, *({**call, "type": "tool_call"} for call in beside)], "\n")
    reasons = attributes.get("gen_ai.response.finish_reasons")
    reason = reasons[0] if isinstance(reasons, list) and reasons else None
    rules = read_parts(_list(attributes, "gen_ai.system_instructions"), "\n", names_others=True).text
    entries = [*_messages(attributes, CONTENT[0]), *before]
    given = [full for entry in entries for full in messages_of(entry)]
    return SpanAnswer(
        kind=kind,
        prompt=(*([message("system", rules)] if rules else []), *given),
        response=with_calls(answer.text, answer.calls),
        requested=answer.calls,
        tools=tuple(_tools(attributes)),
        reasoning=answer.thoughts,
        finish_reason=as_text(last.get("finish_reason") or reason),
        model=text(attributes, "gen_ai.response.model", "gen_ai.request.model"),
        response_id=text(attributes, "gen_ai.response.id"),
        session_id=text(attributes, "gen_ai.conversation.id", "session.id"),
        agent_name=text(attributes, "gen_ai.agent.name"),
        tokens_in=count(attributes, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        tokens_out=count(attributes, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        cost=number(attributes, "gen_ai.usage.cost"),
    )


def _split_run(messages: list[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
    """What an agent did, and its last words; calls whose results are not told are left out."""
    spoken = [
        number
        for number, entry in enumerate(messages)
        if _role(entry) in ("assistant", "") and read_parts(parts_of(entry)).text.strip()
    ]
    last = spoken[-1] if spoken else 0
    has_results = any(_role(entry) == "tool" for entry in messages[:last])
    return messages[:last] if has_results else [], messages[last] if messages else {}


def _role(entry: Mapping[str, Any]) -> str:
    return as_text(entry.get("role")).lower()


def _tools(attributes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        definitions = _list(attributes, CONTENT[3])
    except UsageError:  # cut off; the messages are worth more
        return
    yield from filter(None, map(schema, definitions or _read_numbered(attributes, _TOOLS_BESIDE)))


def _read_numbered(attributes: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What stands in attributes of its own, as long as there are names. LiteLLM tells calls and tools so."""
    number = 0
    while attributes.get(names["name"].format(number)):
        yield {name: as_value(attributes.get(attribute.format(number))) for name, attribute in names.items()}
        number += 1


def _read_numbered_messages(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """By the attribute of CONTENT in which they would stand: older ones of Traceloop are ``gen_ai.prompt.0.content``."""
    numbered = {name: items(tree(attributes, NUMBERED[name])) for name in NUMBERED}
    for entry in (entry for entries in numbered.values() for entry in entries if "tool_calls" in entry):
        entry["tool_calls"] = items(entry["tool_calls"])
    return {name: entries for name, entries in numbered.items() if entries}


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


def _tool_run(span: Span) -> ToolRun:
    attributes = span.attributes
    error = text(attributes, "error.type")
    return ToolRun(
        name=text(attributes, "gen_ai.tool.name") or span.name.removeprefix("execute_tool "),
        call_id=text(attributes, "gen_ai.tool.call.id"),
        arguments=as_value(attributes.get("gen_ai.tool.call.arguments")),
        result=(as_result if span.scope == _AI_SDK else as_value)(attributes.get("gen_ai.tool.call.result")),
        failed=span.failed or bool(error),
        error=span.status_message or error,
    )


CONTENT: Final = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
)
"""Attributes that hold texts."""
NUMBERED: Final = {CONTENT[0]: "gen_ai.prompt.", CONTENT[1]: "gen_ai.completion."}
_WHOLE: Final = {"gen_ai.content.prompt": "gen_ai.prompt", "gen_ai.content.completion": "gen_ai.completion"}
"""Events of 2024, and the attribute that has their messages."""
_ONE: Final = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_CHOICE: Final = "gen_ai.choice"


def messages_on_events(events: Iterable[SpanEvent]) -> dict[str, Any]:
    """By the attribute of CONTENT in which they would stand on the span."""
    by_name: dict[str, Any] = {}
    given: list[Any] = []
    answers: list[Any] = []
    for event in events:
        if event.name == "gen_ai.client.inference.operation.details":
            by_name |= {name: event.attributes[name] for name in CONTENT if name in event.attributes}
        elif event.name in _WHOLE:
            messages = as_value(event.attributes.get(_WHOLE[event.name]))
            (given if event.name.endswith("prompt") else answers).extend(messages if isinstance(messages, list) else ())
        elif match := _ONE.fullmatch(event.name):
            given.append({"role": match[1], **_body(event)})
        elif event.name == _CHOICE:
            body = _body(event)
            message = as_value(body.get("message"))
            answers.append({"role": "assistant", **body, **(message if isinstance(message, Mapping) else {})})
    return {**({CONTENT[0]: given} if given else {}), **({CONTENT[1]: answers} if answers else {}), **by_name}


def _body(event: SpanEvent) -> Mapping[str, Any]:
    body = as_value(event.attributes.get("gen_ai.event.content"))
    return body if isinstance(body, Mapping) else event.attributes
