import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.base.errors import UsageError
from rl.collect.otlp import JSON, PROTOBUF, decode, wire
from rl.collect.otlp.spans import Span, moment
from rl.collect.otlp.wire import MOST_ATTRIBUTES, MOST_OBJECTS, MOST_SPANS, has_more_spans
from rl.collect.traces.imported import Rejected
from tests.collect.otlp.make_spans import NOON, SECOND, body, chat, request, span

TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"


def as_json(*spans: object, hexadecimal: bool = True) -> bytes:
    """As OTLP/JSON has it, or as protobuf's own JSON does."""
    document = MessageToDict(request(*spans))
    for one in document["resourceSpans"][0]["scopeSpans"][0]["spans"] if hexadecimal else ():
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in one:
                one[name] = base64.b64decode(one[name]).hex()
    return json.dumps(document).encode()


def only(found: list[Span | Rejected]) -> Span:
    (one,) = found
    assert isinstance(one, Span)
    return one


def test_a_span_has_what_was_sent():
    sent = span(
        {"a": "b", "n": 1, "x": 0.5, "yes": True, "list": ["c", 2], "map": {"d": {"e": 1}}},
        trace=0xABC,
        id=0xDEF,
        parent=0x123,
        name="chat tiny",
        at=2,
        seconds=0.25,
        error="broke",
        dropped=3,
        events=[("exception", {"exception.message": "boom"})],
    )
    found = only(decode(body(sent, **{"deployment.environment": "test"}), PROTOBUF))
    assert (found.trace_id, found.span_id, found.parent_id) == (f"{0xABC:032x}", f"{0xDEF:016x}", f"{0x123:016x}")
    assert found.attributes == {"a": "b", "n": 1, "x": 0.5, "yes": True, "list": ["c", 2], "map": {"d": {"e": 1}}}
    assert found.resource == {"service.name": "support-chat", "deployment.environment": "test"}
    assert (found.name, found.scope, found.dropped_attributes) == ("chat tiny", "tests", 3)
    assert (found.start, found.duration_ms) == (NOON + 2 * SECOND, 250)
    assert (found.failed, found.status_message) == (True, "broke")
    assert [(event.name, event.attributes) for event in found.events] == [("exception", {"exception.message": "boom"})]


def test_json_says_the_same_as_protobuf_with_ids_in_hexadecimal_or_base64():
    sent = span(chat(), trace=7, id=8, parent=9, error="broke", events=[("e", {"n": 2**60})])
    spans = decode(body(sent), PROTOBUF)
    assert decode(as_json(sent), JSON) == decode(as_json(sent, hexadecimal=False), JSON) == spans


def test_json_may_write_names_with_underscores_numbers_as_text_and_fields_that_nobody_knows():
    document = {
        "resource_spans": [
            {
                "scope_spans": [
                    {
                        "spans": [
                            {
                                "trace_id": TRACE.upper(),
                                "span_id": SPAN,
                                "start_time_unix_nano": str(NOON),
                                "kind": 2,
                                "news": [1],
                                "attributes": [{"key": "a", "value": {"intValue": "5"}}],
                            }
                        ]
                    }
                ]
            }
        ]
    }
    found = only(decode(json.dumps(document).encode(), JSON))
    assert (found.trace_id, found.span_id, found.start) == (TRACE, SPAN, NOON)
    assert found.attributes == {"a": 5}


def test_a_byte_that_is_no_text_costs_its_character_alone():
    sent = as_json(span(chat(said="?!"), name="odd"), span(chat(), id=2, name="fine")).replace(b"?!", b"\xe9!")
    odd, fine = decode(sent, JSON)
    assert "\ufffd!" in str(odd.attributes["gen_ai.output.messages"])
    assert (odd.name, fine.name) == ("odd", "fine")


def test_what_json_cannot_say_is_left_out():
    found = only(decode(body(span({"raw": b"\x00\xff", "nan": float("nan"), "inf": [float("inf")]})), PROTOBUF))
    assert found.attributes == {"raw": None, "nan": None, "inf": [None]}


def test_a_span_without_usable_ids_is_refused_and_the_others_are_not():
    broken = span(id=2)
    broken.trace_id = b"short"
    found = decode(body(span(id=1), broken, span(id=0), span(trace=0)), PROTOBUF)
    assert [isinstance(one, Rejected) for one in found] == [False, True, True, True]


def test_too_many_attributes_are_refused():
    wide = span({f"a{n}": n for n in range(MOST_ATTRIBUTES + 1)})
    chatty = span(events=[("e", {f"a{n}": n for n in range(6000)})] * 2)
    assert [getattr(one, "reason", "")[:8] for one in decode(body(wide, chatty, span()), PROTOBUF)] == [
        "it has m"
    ] * 2 + [""]


def test_too_many_spans_are_refused_as_a_whole():
    with pytest.raises(UsageError, match="at most 10000"):
        decode(body(*[span()] * (MOST_SPANS + 1)), PROTOBUF)


@pytest.mark.parametrize("sent", [b"\x0a\x00", b"\x0a\x02\x12\x00"])
def test_a_body_of_empty_resources_or_scopes_is_refused_before_it_is_parsed(sent: bytes, monkeypatch):
    monkeypatch.setattr(wire, "ExportTraceServiceRequest", None)
    with pytest.raises(UsageError, match="too many"):
        decode(sent * (MOST_SPANS + 1), PROTOBUF)


def test_json_with_very_many_objects_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr(wire, "json", None)
    with pytest.raises(UsageError, match="braces"):
        decode(b'{"resourceSpans":[' + b"{}," * MOST_OBJECTS + b"{}]}", JSON)


@given(st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=4))
def test_spans_are_counted_as_the_parser_finds_them(shape: list[list[int]]):
    made = request()
    for scopes in shape:
        resource = made.resource_spans.add(schema_url="x" * 200)
        for count in scopes:
            resource.scope_spans.add(schema_url="y").spans.extend([span({"a": 1})] * count)
    level = [1, len(shape) + 1, sum(map(len, shape)) + 1, sum(map(sum, shape))]
    assert not has_more_spans(made.SerializeToString(), max(level))
    assert has_more_spans(made.SerializeToString(), max(level) - 1)


@given(st.binary(max_size=60))
def test_counting_ends_whatever_the_bytes_are(sent: bytes):
    with suppress(DecodeError):
        has_more_spans(sent, 3)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"null",
        b"7",
        b"[]",
        b"\xff",
        b"{",
        b"[" * 100_000,
        b'{"resourceSpans": 1}',
        b'{"resourceSpans": [1]}',
        b'{"resourceSpans": NaN}',
        b'{"resourceSpans": {"a": 1}}',
        b"9" * 10_000,
        b'{"resourceSpans": [{"scopeSpans": [{"spans": 7}]}]}',
    ],
)
def test_json_of_another_shape_is_refused_in_one_line(sent: bytes):
    with pytest.raises(UsageError, match="ExportTraceServiceRequest|nested") as error:
        decode(sent, JSON)
    assert "\n" not in str(error.value)


def test_values_that_are_nested_deeply_are_cut_off():
    deep: object = "bottom"
    for _ in range(45):
        deep = [deep]
    found = only(decode(body(span({"deep": deep})), PROTOBUF))
    assert json.dumps(found.attributes).count("[") == 33
    value = '{"arrayValue": {"values": [' * 200 + "]}}" * 200
    sent = '{"resourceSpans": [{"resource": {"attributes": [{"key": "a", "value": ' + value + "}]}}]}"
    assert decode(sent.encode(), JSON) == []


ODD_SPANS: list[dict[str, Any]] = [
    {"traceId": 5},
    {"startTimeUnixNano": "x"},
    {"links": [7]},
    {"attributes": "x"},
    {"attributes": [7]},
    {"name": ["a"]},
]


@pytest.mark.parametrize("odd", ODD_SPANS)
def test_a_span_that_cannot_be_read_is_refused_alone(odd: dict[str, Any]):
    found = decode(among_others(odd), JSON)
    assert [getattr(one, "name", "") for one in found] == ["before", "behind", ""]
    assert isinstance(found[2], Rejected)
    assert found[2].reason


ODD_VALUES: list[tuple[Any, Any]] = [
    ({"stringValue": "x\ud83d"}, "x\ufffd"),
    ({"intValue": 1.5}, 1.5),
    ({"intValue": 2.0}, 2),
    ({"intValue": 10**30}, None),
    ({"intValue": True}, None),
    ({"boolValue": "maybe"}, None),
    ({"stringValue": 7}, None),
    ({"bytesValue": "?"}, None),
    ({"stringValue": "a", "intValue": 1}, None),
    ({"arrayValue": {"values": [{"intValue": 0.5}, {"stringValue": "\udc00"}]}}, [0.5, "\ufffd"]),
    ({"kvlistValue": {"values": [{"key": "\ud800", "value": {"stringValue": "a"}}]}}, {"\ufffd": "a"}),
]


@pytest.mark.parametrize(("value", "read"), ODD_VALUES)
def test_a_value_that_cannot_be_read_costs_neither_its_span_nor_others(value: Any, read: Any):
    attributes = [{"key": "odd", "value": value}, {"key": "fine", "value": {"intValue": 1}}]
    spans = decode(among_others({"attributes": attributes, "events": [{"attributes": attributes}]}), JSON)
    assert [one.name for one in spans] == ["before", "odd", "behind"]
    assert spans[1].attributes == spans[1].events[0].attributes == {"odd": read, "fine": 1}
    of_resource = {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [named("a")]}]}]}
    assert only(decode(json.dumps(of_resource).encode(), JSON)).resource == {"odd": read, "fine": 1}


@pytest.mark.parametrize("count", [-1, 1.5, 2**40, "many", None, True])
@pytest.mark.parametrize("name", ["droppedAttributesCount", "droppedEventsCount", "droppedLinksCount", "flags"])
def test_a_count_that_is_none_is_left_out(name: str, count: Any):
    assert [getattr(one, "name", "") for one in decode(among_others({name: count}), JSON)] == [
        "before",
        "odd",
        "behind",
    ]


def test_a_text_that_is_cut_within_a_character_costs_its_span_alone():
    sent = body(span({"a": 1}, name="before"), span({"text": "x"}, name="oddly"), span(name="behind"), id=7)
    found = decode(sent.replace(b"oddly", b"odd\xf0\x9f"), PROTOBUF)
    assert [getattr(one, "name", "") for one in found] == ["before", "behind", ""]
    assert isinstance(found[2], Rejected)
    assert "UTF-8" in found[2].reason
    assert found[0].resource == {"service.name": "support-chat", "id": 7}
    assert found[0].scope == "tests"


def named(name: str) -> dict[str, Any]:
    return {"traceId": TRACE, "spanId": SPAN, "name": name}


def among_others(odd: dict[str, Any]) -> bytes:
    spans = [named("before"), {**named("odd"), **odd}, named("behind")]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_garbage_never_breaks_the_decoder(sent: bytes):
    for media_type in (PROTOBUF, JSON):
        with suppress(UsageError):
            decode(sent, media_type)


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_message_never_breaks_the_decoder(data: st.DataObject):
    whole = bytearray(body(span(chat()), span({"a": [1, {"b": "c"}]}, id=2)))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(UsageError):
        decode(bytes(whole), PROTOBUF)


def test_times_that_are_not_known_are_none():
    assert moment(0) is None
    assert moment(NOON).isoformat() == "2026-06-01T12:00:00+00:00"
    assert Span(trace_id="", span_id="", start=0, end=NOON).duration_ms is None
    assert Span(trace_id="", span_id="", start=NOON, end=NOON - 1).duration_ms == 0
    assert Span(trace_id="", span_id="", start=NOON, end=NOON - SECOND).duration_ms is None
    assert Span(trace_id="", span_id="", start=1, end=2**64 - 1).duration_ms is None
