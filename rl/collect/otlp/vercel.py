"""The AI SDK of Vercel: ``ai.*`` attributes, with its own names for messages, tools and what a model said.

https://ai-sdk.dev/docs/ai-sdk-core/telemetry
"""

from collections.abc import Mapping
from typing import Any, Final

from rl.base.errors import UsageError
from rl.collect.otlp.messages import as_result, as_text, as_value, messages_of, read_answer, schema, with_calls
from rl.collect.otlp.spans import Span, SpanAnswer, ToolRun, count, text

CONTENT: Final = (
    "ai.prompt",
    *("ai.response.text", "ai.response.object", "ai.response.reasoning", "ai.response.toolCalls"),
    *("ai.toolCall.args", "ai.toolCall.result"),
)
"""Beginnings of attributes that hold texts."""
_CALLS: Final = (".doGenerate", ".doStream")
"""The calls of a model within an operation, whose own span says the same once more."""


def read(span: Span) -> SpanAnswer | ToolRun | None:
    """None: a span of another dialect, or one that says nothing to learn from. Raises UsageError for messages that are
    not messages."""
    operation = text(span.attributes, "ai.operationId")
    if operation == "ai.toolCall":
        attributes = span.attributes
        return ToolRun(
            name=text(attributes, "ai.toolCall.name") or span.name,
            call_id=text(attributes, "ai.toolCall.id"),
            arguments=as_value(attributes.get("ai.toolCall.args")),
            result=as_result(attributes.get("ai.toolCall.result")),
            failed=span.failed,
            error=as_text(span.status_message),
        )
    return _answer(span.attributes) if operation.startswith("ai.") and operation.endswith(_CALLS) else None


def _answer(attributes: Mapping[str, Any]) -> SpanAnswer:
    prompt = _list(attributes, "ai.prompt.messages")
    thought = {"type": "reasoning", "text": text(attributes, "ai.response.reasoning")}
    words = {"type": "text", "text": text(attributes, "ai.response.text", "ai.response.object")}
    called = (call for call in _list(attributes, "ai.response.toolCalls") if isinstance(call, dict))
    answer = read_answer([thought, words, *({**call, "type": "tool-call"} for call in called)])
    tools = attributes.get("ai.prompt.tools")
    return SpanAnswer(
        prompt=tuple(made for entry in prompt if isinstance(entry, dict) for made in messages_of(entry)),
        response=with_calls(answer.text, answer.calls),
        requested=answer.calls,
        tools=tuple(filter(None, map(schema, tools if isinstance(tools, list) else ()))),
        reasoning=answer.thoughts,
        finish_reason=text(attributes, "ai.response.finishReason"),
        model=text(attributes, "ai.response.model", "gen_ai.response.model", "ai.model.id", "gen_ai.request.model"),
        response_id=text(attributes, "ai.response.id", "gen_ai.response.id"),
        session_id=text(attributes, "ai.telemetry.metadata.sessionId", "session.id"),
        agent_name=text(attributes, "ai.telemetry.functionId"),
        tokens_in=count(attributes, "ai.usage.inputTokens", "ai.usage.promptTokens", "gen_ai.usage.input_tokens"),
        tokens_out=count(
            attributes, "ai.usage.outputTokens", "ai.usage.completionTokens", "gen_ai.usage.output_tokens"
        ),
    )


def _list(attributes: Mapping[str, Any], name: str) -> list[Any]:
    value = as_value(attributes.get(name))
    if isinstance(value, str) and value:
        raise UsageError(f"{name} is not JSON; was it cut off? OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT must not be set")
    return value if isinstance(value, list) else []
