"""OTLP/JSON of which a part cannot be read: that part goes, and the rest is stored. Exporters never send a refused batch
again, so one odd value of one span would lose the answers of all others.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.json_format import ParseDict, ParseError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from rl.collect.traces.imported import Rejected

UNREADABLE: Final = (ParseError, ValueError, TypeError, AttributeError)
"""What protobuf's parser raises for odd shapes."""
_COUNTS: Final = ("droppedAttributesCount", "droppedEventsCount", "droppedLinksCount", "flags")
_LARGEST_COUNT: Final = 2**32 - 1
_DEEPEST: Final = 100
"""Levels of JSON; protobuf's parser takes no more."""


def mend(value: Any, refused: list[Rejected]) -> Any:
    """The document without what cannot be read: texts get a sign for half a character, values of attributes become null,
    counts go, and a span that is still none is added to ``refused``."""
    if isinstance(value, list):
        return [mend(item, refused) for item in value]
    if not isinstance(value, dict):
        return _with_whole_characters(value)
    if "key" in value and "value" in value:
        return {"key": _with_whole_characters(value["key"]), "value": _readable(value["value"])}
    made = {name: mend(item, refused) for name, item in value.items() if not _is_odd_count(name, item)}
    if isinstance(spans := made.get("spans"), list):
        made["spans"] = [span for span in spans if _is_span(span, refused)]
    return made


def _is_odd_count(name: str, value: Any) -> bool:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT
    return name in _COUNTS and not known


def _readable(value: Any) -> Any:
    """The value of an attribute; looked at once, however deeply others lie in it."""
    value = _with_whole_characters(value)
    return {} if _problem(value, AnyValue()) else value


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
