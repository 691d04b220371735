"""OTLP/HTTP bodies (protobuf, or JSON with hexadecimal ids) to spans.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from rl.base.errors import UsageError
from rl.collect.otlp.spans import Span, SpanEvent
from rl.collect.traces.imported import Rejected

PROTOBUF, JSON = "application/x-protobuf", "application/json"
MOST_SPANS = 10_000
"""Most spans in one request; exporters send some hundred."""
MOST_ATTRIBUTES = 10_000
"""Most attributes of one span, and of all its events together."""
MOST_OBJECTS = 1_000_000
"""Most objects of a JSON body, counted by their braces, those within texts too: reading that many takes seconds."""
DEEPEST_VALUE = 32
TOO_MANY = f"the request has too many spans, resources or scopes; send at most {MOST_SPANS} at a time"
_IDS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{16}){1,2}")


def decode(body: bytes, media_type: str) -> list[Span | Rejected]:
    """Raises UsageError for a body that is not an ExportTraceServiceRequest, or has more than MOST_SPANS."""
    refused: list[Rejected] = []
    request = _from_json(body, refused) if media_type == JSON else _from_protobuf(body, refused)
    if sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans) > MOST_SPANS:
        raise UsageError(TOO_MANY)
    return [*_spans(request), *refused]


def _from_protobuf(body: bytes, refused: list[Rejected]) -> ExportTraceServiceRequest:
    """``refused`` as ``_from_json`` has it: some clients cut a text in the middle of a character."""
    try:
        if has_more_spans(body, MOST_SPANS):
            raise UsageError(TOO_MANY)
        try:
            return ExportTraceServiceRequest.FromString(body)
        except DecodeError:
            return _span_by_span(body, refused)
    except DecodeError as error:
        raise UsageError(f"the body is not a protobuf ExportTraceServiceRequest: {error}") from None


def _span_by_span(body: bytes, refused: list[Rejected]) -> ExportTraceServiceRequest:
    """Raises DecodeError where it is not a span that cannot be read."""
    request = ExportTraceServiceRequest.FromString(_without(body, (0, len(body)), 1))
    for of_resource in _messages(body, (0, len(body)), 1):
        resource = request.resource_spans.add()
        resource.MergeFromString(_without(body, of_resource, 2))
        for of_scope in _messages(body, of_resource, 2):
            scope = resource.scope_spans.add()
            scope.MergeFromString(_without(body, of_scope, 2))
            for start, end in _messages(body, of_scope, 2):
                try:
                    scope.spans.append(WireSpan.FromString(body[start:end]))
                except DecodeError as error:
                    refused.append(Rejected("a span", f"it cannot be read: {error}"[:300]))
    return request


def _from_json(body: bytes, refused: list[Rejected]) -> ExportTraceServiceRequest:
    """``refused``: spans that cannot be read are added."""
    if body.count(b"{") > MOST_OBJECTS:
        raise UsageError(f"the body has more than {MOST_OBJECTS:,} braces; send fewer spans at a time, or protobuf")
    try:
        try:
            document = json.loads(body)
        except UnicodeDecodeError:
            document = json.loads(body.decode(errors="replace"))
        if not isinstance(document, dict):
            raise ValueError("it is not an object")
        for span in _span_objects(document):
            for name in _IDS:  # OTLP/JSON writes them in hexadecimal; protobuf's own JSON in base64, which stays
                value = span.get(name)
                if isinstance(value, str) and _HEXADECIMAL.fullmatch(value):
                    span[name] = base64.b64encode(bytes.fromhex(value)).decode()
        try:
            return ParseDict(document, ExportTraceServiceRequest(), ignore_unknown_fields=True)
        except UNREADABLE:
            return ParseDict(mend(document, refused), ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except RecursionError:
        raise UsageError("the body is nested too deeply") from None
    except UNREADABLE as error:
        raise UsageError(f"the body is not a JSON ExportTraceServiceRequest: {reason_of(error)}") from None


def _span_objects(document: Any) -> Iterator[dict[str, Any]]:
    """The spans and links of a JSON document, which may have any shape."""
    level = [document]
    for names in (("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans"), ("spans",)):
        level = [inner for parent in level for inner in _members(parent, names)]
    yield from level
    yield from (link for span in level for link in _members(span, ("links",)))


def _members(value: Any, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    for name in names:
        items = value.get(name) if isinstance(value, dict) else None
        yield from (item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict))


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span | Rejected]:
    for resource_spans in request.resource_spans:
        resource = _attributes(resource_spans.resource.attributes[:MOST_ATTRIBUTES])
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                reason = _refusal(span)
                where = f"span {span.span_id.hex()[:16]}"
                yield Rejected(where, reason) if reason else _span(span, resource, scope_spans.scope.name)


def _refusal(span: WireSpan) -> str:
    if len(span.trace_id) != 16 or len(span.span_id) != 8 or not any(span.trace_id) or not any(span.span_id):
        return "a trace id has 16 bytes, a span id 8, and neither is zero"
    if len(span.attributes) > MOST_ATTRIBUTES or sum(len(event.attributes) for event in span.events) > MOST_ATTRIBUTES:
        return f"it has more than {MOST_ATTRIBUTES} attributes"
    return ""


def _span(span: WireSpan, resource: dict[str, Any], scope: str) -> Span:
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name,
        attributes=_attributes(span.attributes),
        resource=resource,
        events=tuple(
            SpanEvent(event.name, _attributes(event.attributes), event.time_unix_nano) for event in span.events
        ),
        scope=scope,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        status_message=span.status.message,
        dropped_attributes=span.dropped_attributes_count,
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue, depth: int = 0) -> Any:
    """Plain JSON; None for bytes, for numbers that are not finite, and for what lies too deep."""
    kind = value.WhichOneof("value")
    if depth > DEEPEST_VALUE or kind is None or kind == "bytes_value":
        return None
    if kind == "array_value":
        return [_value(element, depth + 1) for element in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _value(pair.value, depth + 1) for pair in value.kvlist_value.values}
    plain = getattr(value, kind)
    return plain if not isinstance(plain, float) or math.isfinite(plain) else None


_PATH = (1, 2, 2)
"""Field numbers from the request to its spans: resource_spans, scope_spans, spans."""
_SIZES = {1: 8, 5: 4}
"""Bytes of the wire types of a fixed size."""
Extent = tuple[int, int]
"""Where a message begins and ends."""


def has_more_spans(body: bytes, most: int) -> bool:
    """Or more resources or scopes, before it is parsed: a span of two bytes takes more than a hundred in memory. Raises
    DecodeError for what no exporter writes."""
    level: list[Extent] = [(0, len(body))]
    for field in _PATH:
        inner = chain.from_iterable(_messages(body, extent, field) for extent in level)
        level = list(islice(inner, most + 1))
        if len(level) > most:
            return True
    return False


def _messages(body: bytes, extent: Extent, field: int) -> Iterator[Extent]:
    return ((start, end) for tag, _, start, end in _fields(body, extent) if tag == field << 3 | 2)


def _without(body: bytes, extent: Extent, field: int) -> bytes:
    return b"".join(body[begin:end] for tag, begin, _, end in _fields(body, extent) if tag != field << 3 | 2)


def _fields(body: bytes, extent: Extent) -> Iterator[tuple[int, int, int, int]]:
    """Tag, where the field begins, where what it holds begins, and where it ends."""
    at, end = extent
    while at < end:
        begin = at
        tag, at = _number(body, at, end)
        kind, start = tag & 7, at
        if kind == 0:
            _, at = _number(body, at, end)
        elif kind == 2:
            size, start = _number(body, at, end)
            at = start + size
        elif kind in _SIZES:
            at += _SIZES[kind]
        else:
            raise DecodeError(f"wire type {kind} at byte {at}")
        if at > end:
            raise DecodeError(f"the field at byte {begin} is cut off")
        yield tag, begin, start, at


def _number(body: bytes, at: int, end: int) -> Extent:
    """A variable-length integer, and where it ends."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = body[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise DecodeError(f"a number is cut off at byte {at}")


UNREADABLE: Final = (ParseError, ValueError, TypeError, AttributeError)
"""What protobuf's parser raises for odd shapes."""
_COUNTS: Final = ("droppedAttributesCount", "droppedEventsCount", "droppedLinksCount", "flags")
_LARGEST_COUNT: Final = 2**32 - 1
_DEEPEST: Final = 100
"""Levels of JSON; protobuf's parser takes no more."""


def mend(value: Any, refused: list[Rejected]) -> Any:
    """The document without what cannot be read, for exporters never send a refused batch again: texts get a sign for half a
    character, values of attributes become null, counts go, and a span that is still none is added to ``refused``."""
    if isinstance(value, list):
        return [mend(item, refused) for item in value]
    if not isinstance(value, dict):
        return _with_whole_characters(value)
    if "key" in value and "value" in value:
        inner = _with_whole_characters(value["value"])  # looked at once, however deeply others lie in it
        return {"key": _with_whole_characters(value["key"]), "value": {} if _problem(inner, AnyValue()) else inner}
    made = {name: mend(item, refused) for name, item in value.items() if name not in _COUNTS or _is_count(item)}
    if isinstance(spans := made.get("spans"), list):
        made["spans"] = [span for span in spans if _is_span(span, refused)]
    return made


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT


def _with_whole_characters(value: Any, depth: int = 0) -> Any:
    """Mends a text, and all texts in a value; there a fraction that is announced as a whole number is a number too. None
    for what lies too deep."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_with_whole_characters(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(number := value.get("intValue"), float) and not number.is_integer():
        return {"doubleValue": number}
    return {_with_whole_characters(name): _with_whole_characters(item, depth + 1) for name, item in value.items()}


def _is_span(span: Any, refused: list[Rejected]) -> bool:
    problem = _problem(span, WireSpan())
    if problem:
        where = span.get("name") if isinstance(span, dict) else ""
        refused.append(Rejected(f"span {where!r:.100}", problem))
    return not problem


def _problem(value: Any, message: Any) -> str:
    try:
        ParseDict(value, message, ignore_unknown_fields=True)
    except UNREADABLE as error:
        return reason_of(error)
    return ""


def reason_of(error: Exception) -> str:
    """Without the names of all fields on the way to the wrong one, which protobuf's parser puts before it."""
    return str(error).rsplit("field: ", 1)[-1][:300] or type(error).__name__
