"""Spans as exporters send them: protobuf messages, written in one line each."""

import json
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

NOON = 1_780_315_200 * 10**9
"""2026-06-01T12:00:00Z in nanoseconds."""
SECOND = 10**9


def value(plain: Any) -> AnyValue:
    if isinstance(plain, bool):
        return AnyValue(bool_value=plain)
    if isinstance(plain, int):
        return AnyValue(int_value=plain)
    if isinstance(plain, float):
        return AnyValue(double_value=plain)
    if isinstance(plain, bytes):
        return AnyValue(bytes_value=plain)
    if isinstance(plain, list):
        found = AnyValue()
        found.array_value.values.extend(map(value, plain))
        return found
    if isinstance(plain, dict):
        found = AnyValue()
        found.kvlist_value.values.extend(pairs(plain))
        return found
    return AnyValue(string_value=plain)


def pairs(attributes: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=name, value=value(plain)) for name, plain in attributes.items()]


def span(
    attributes: dict[str, Any] | None = None,
    *,
    trace: int = 1,
    id: int = 1,
    parent: int = 0,
    name: str = "span",
    at: float = 0,
    seconds: float = 1,
    error: str | None = None,
    dropped: int = 0,
    events: list[tuple[str, dict[str, Any]]] | None = None,
) -> WireSpan:
    """``at``: seconds after NOON."""
    start = NOON + round(at * SECOND)
    made = WireSpan(
        trace_id=trace.to_bytes(16, "big"),
        span_id=id.to_bytes(8, "big"),
        parent_span_id=parent.to_bytes(8, "big") if parent else b"",
        name=name,
        start_time_unix_nano=start,
        end_time_unix_nano=start + round(seconds * SECOND),
        attributes=pairs(attributes or {}),
        dropped_attributes_count=dropped,
    )
    for event, details in events or ():
        made.events.add(name=event, time_unix_nano=start, attributes=pairs(details))
    if error is not None:
        made.status.code, made.status.message = 2, error
    return made


def request(*spans: WireSpan, service: str | None = "support-chat", **resource: Any) -> ExportTraceServiceRequest:
    made = ExportTraceServiceRequest()
    resource_spans = made.resource_spans.add()
    named = {"service.name": service} if service else {}
    resource_spans.resource.attributes.extend(pairs({**named, **resource}))
    resource_spans.scope_spans.add(spans=spans).scope.name = "tests"
    return made


def body(*spans: WireSpan, **resource: Any) -> bytes:
    return request(*spans, **resource).SerializeToString()


def say(role: str, *texts: str, calls: dict[str, tuple[str, Any]] | None = None) -> dict[str, Any]:
    """A message of the ``gen_ai`` dialect; ``calls``: id to name and arguments."""
    parts: list[dict[str, Any]] = [{"type": "text", "content": text} for text in texts]
    parts += [{"type": "tool_call", "id": id, "name": name, "arguments": a} for id, (name, a) in (calls or {}).items()]
    return {"role": role, "parts": parts}


def chat(asked: str = "Where is 4711?", said: str = "In Bonn.", **more: Any) -> dict[str, Any]:
    """Attributes of a model call; ``calls`` as for ``say``; other keywords with ``__`` for a dot replace attributes."""
    calls = more.pop("calls", None)
    answer = say("assistant", *([said] if said else []), calls=calls)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "tiny",
        "gen_ai.input.messages": json.dumps([say("user", asked)]),
        "gen_ai.output.messages": json.dumps([answer]),
        **{name.replace("__", "."): plain for name, plain in more.items()},
    }


def tool(name: str = "track", *, call_id: str = "", result: str = "in Bonn", **more: Any) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": '{"number": "4711"}',
        "gen_ai.tool.call.result": result,
        **({"gen_ai.tool.call.id": call_id} if call_id else {}),
        **{attribute.replace("__", "."): plain for attribute, plain in more.items()},
    }


def evaluation(name: str = "Relevance", score: float | None = None, label: str = "", **more: Any) -> dict[str, Any]:
    return {
        "gen_ai.evaluation.name": name,
        **({"gen_ai.evaluation.score.value": score} if score is not None else {}),
        **({"gen_ai.evaluation.score.label": label} if label else {}),
        **{attribute.replace("__", "."): plain for attribute, plain in more.items()},
    }


def inference(kind: str, **attributes: Any) -> dict[str, Any]:
    """Attributes of OpenInference, with ``__`` for a dot."""
    named = {attribute.replace("__", "."): plain for attribute, plain in attributes.items()}
    return {"openinference.span.kind": kind, **named}
