"""What an OpenTelemetry exporter sees."""

import base64
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.http import HttpResponse
from django.test import Client
from google.protobuf.json_format import MessageToDict
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from rl.base.errors import RunConflict
from rl.collect.otlp import JSON, PROTOBUF
from rl.dataset_builder.read.runs import read_run
from rl.models import Agent, ApiKey, PendingSpan, Trace
from tests.collect.otlp.make_spans import body, chat, request, span, tool
from tests.web.api.conftest import key_for

URL = "/v1/traces"
pytestmark = pytest.mark.django_db
REQUESTS = Path(__file__).with_name("otlp_requests")
QUESTION = [{"role": "user", "content": "Q?"}]


def send(key: str, sent: bytes, media_type: str = PROTOBUF, **headers: str) -> HttpResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    authorization = {"authorization": f"Bearer {key}"} if key else {}
    # Django's client names no media type where the body is empty.
    extra = {"CONTENT_TYPE": media_type}
    return Client().post(URL, sent, content_type=media_type, headers={**authorization, **named}, **extra)


def accepted(response: HttpResponse) -> ExportTraceServiceResponse:
    assert response.status_code == 200, response.content
    assert response["content-type"] == PROTOBUF
    return ExportTraceServiceResponse.FromString(response.content)


def refusal(response: HttpResponse, status: int, *words: str) -> Status:
    """It is a Status, in protobuf or JSON, that says all the words."""
    assert response.status_code == status, response.content
    if response["content-type"] == PROTOBUF:
        found = Status.FromString(response.content)
    else:
        assert response["content-type"] == JSON
        found = Status(**response.json())
    assert found.code
    for word in words:
        assert word in found.message
    return found


def hexadecimal(document: dict[str, Any]) -> bytes:
    for one in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        one.update({name: base64.b64decode(one[name]).hex() for name in ("traceId", "spanId") if name in one})
    return json.dumps(document).encode()


# --- what is accepted --------------------------------------------------------------------------------------------------


def test_spans_become_traces_and_the_answer_is_empty(secret_key: str):
    response = send(secret_key, body(span(chat()), span(tool(), id=2, at=2)))
    assert accepted(response) == ExportTraceServiceResponse()
    trace = Trace.objects.get()
    assert (trace.agent.name, trace.response, trace.tool_calls[0]["tool_name"]) == ("support-chat", "In Bonn.", "track")


def test_json_is_answered_in_json(secret_key: str):
    sent = hexadecimal(MessageToDict(request(span(chat(), trace=0xABC))))
    response = send(secret_key, sent, "application/json; charset=utf-8")
    assert (response.status_code, response["content-type"], response.json()) == (200, JSON, {})
    assert Trace.objects.get().otel_trace_id == f"{0xABC:032x}"


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("GZIP", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)],
)
def test_bodies_may_be_compressed(secret_key: str, encoding: str, pack: Any):
    accepted(send(secret_key, pack(body(span(chat()))), content_encoding=encoding))
    assert Trace.objects.count() == 1


def test_whatever_the_client_accepts_it_gets_what_it_sent(secret_key: str):
    accepted(send(secret_key, body(), accept="text/html"))


def test_what_is_refused_is_counted_with_its_reasons(secret_key: str):
    spans = [span(chat(), id=1), span(chat(gen_ai__input__messages="["), id=2), span(chat(said="a\x00"), id=3)]
    partial = accepted(send(secret_key, body(*spans))).partial_success
    assert partial.rejected_spans == 2
    assert "NUL" in partial.error_message
    assert "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT" in partial.error_message
    assert Trace.objects.count() == 1


def test_texts_that_were_not_captured_are_a_warning_that_says_what_to_set(secret_key: str):
    bare = span({"gen_ai.operation.name": "chat"})
    response = send(secret_key, hexadecimal(MessageToDict(request(bare))), JSON)
    partial = response.json()["partialSuccess"]
    assert partial.get("rejectedSpans", "0") == "0"
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in partial["errorMessage"]


def test_other_spans_are_passed_over_without_a_word(secret_key: str):
    assert accepted(send(secret_key, body(span({"http.method": "GET"})))) == ExportTraceServiceResponse()
    assert not Agent.objects.exists()


# --- whose they are ----------------------------------------------------------------------------------------------------


def test_an_unbound_key_makes_the_agent_that_the_service_names(secret_key: str):
    for service in ("My Service", "my-service"):
        accepted(send(secret_key, body(span(chat()), service=service)))
    assert [agent.name for agent in Agent.objects.all()] == ["My-Service"]


def test_a_header_goes_before_the_service(secret_key: str):
    accepted(send(secret_key, body(span(chat())), x_ratchet_agent="Parcel desk"))
    assert Trace.objects.get().agent.name == "Parcel-desk"
    refusal(send(secret_key, body(span(chat())), x_ratchet_agent="///"), 400, "X-Ratchet-Agent")


def test_a_bound_key_stores_for_its_agent_whatever_the_spans_say(agent: Agent):
    accepted(send(key_for(agent), body(span(chat()), service="elsewhere"), x_ratchet_agent="other"))
    assert Trace.objects.get().agent == agent
    assert Agent.objects.count() == 1


@pytest.mark.database
def test_one_request_may_bring_several_services(secret_key: str):
    both = request(span(chat(), id=1), service="one")
    both.MergeFrom(request(span(chat(), id=2), span(tool(), id=3, at=2), service="two"))
    accepted(send(secret_key, both.SerializeToString()))
    assert set(Trace.objects.values_list("agent__name", flat=True)) == {"one", "two"}
    assert not PendingSpan.objects.exists()


def test_a_service_without_a_name_is_refused_with_what_to_set(secret_key: str):
    partial = accepted(send(secret_key, body(span(chat()), service="unknown_service"))).partial_success
    assert (partial.rejected_spans, "OTEL_SERVICE_NAME" in partial.error_message) == (1, True)


# --- who may, and how much ---------------------------------------------------------------------------------------------


def test_a_key_that_was_revoked_is_refused(secret_key: str):
    ApiKey.objects.get().revoke()
    refusal(send(secret_key, body()), 401, "revoked")


def test_too_many_requests_are_told_when_to_come_back(secret_key: str, settings, endless_minute):
    settings.API_REQUESTS_PER_MINUTE = 2
    for _ in range(2):
        accepted(send(secret_key, body()))
    response = send(secret_key, body())
    refusal(response, 429)
    assert 1 <= int(response["retry-after"]) <= 60


def test_only_posting_is_possible(secret_key: str):
    refusal(Client().get(URL, headers={"authorization": f"Bearer {secret_key}"}), 405)


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "application/grpc", ""])
def test_another_media_type_is_refused(secret_key: str, media_type: str):
    refusal(send(secret_key, body(span(chat())), media_type), 415, PROTOBUF, JSON)


def test_another_encoding_is_refused(secret_key: str):
    refusal(send(secret_key, body(), content_encoding="br"), 415, "gzip")


@pytest.mark.parametrize("error", [OperationalError("database is locked"), RunConflict("try again")])
def test_what_may_work_later_is_answered_so_that_exporters_send_it_again(
    secret_key: str, monkeypatch, error: Exception
):
    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("rl.collect.traces.spans.take_turns", fail)
    response = send(secret_key, body(span(chat())))
    assert refusal(response, 503).code == 14
    assert int(response["retry-after"]) > 0
    assert not Trace.objects.exists()


def test_a_space_that_came_as_in_an_address_is_one(secret_key: str, agent: Agent):
    headers = {"authorization": f"Bearer%20{secret_key}"}
    answer = Client().post(URL, body(span(chat())), content_type=PROTOBUF, headers=headers)
    assert (answer.status_code, Trace.objects.count()) == (200, 1)


# --- hostile bodies ----------------------------------------------------------------------------------------------------

LIMIT = 16_777_216


@pytest.mark.parametrize("media_type", [PROTOBUF, JSON])
@pytest.mark.parametrize("sent", [b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x7f", b"[" * 500_000, b"<xml/>"])
def test_garbage_is_refused(secret_key: str, media_type: str, sent: bytes):
    refusal(
        send(secret_key, sent, media_type),
        400,
        "ExportTraceServiceRequest" if sent[0] != 91 or media_type == PROTOBUF else "",
    )


def test_a_gzip_bomb_is_refused_before_it_unfolds(secret_key: str):
    bomb = gzip.compress(b"\x00" * (200 * 1024 * 1024), compresslevel=1)
    assert len(bomb) < 1_000_000
    refusal(send(secret_key, bomb, content_encoding="gzip"), 413)


def test_more_than_other_calls_may_send_is_fine(secret_key: str):
    text = "word " * 700_000
    assert len(text) > 3_000_000
    accepted(send(secret_key, body(span(chat(said=text)))))
    assert Trace.objects.get().response == text


@pytest.mark.parametrize(
    "sent",
    [b"plain", gzip.compress(b"x")[:-3], gzip.compress(b"") + b"more", b""],
    ids=["plain", "cut", "with more behind it", "empty"],
)
def test_what_is_not_compressed_as_it_says_is_refused(secret_key: str, sent: bytes):
    refusal(send(secret_key, sent, content_encoding="gzip"), 400, "compressed")


def test_a_million_attributes_are_refused(secret_key: str):
    one = span()
    for _ in range(1_000_000):
        one.attributes.add().key = "a"
    sent = body(one)
    assert len(sent) < LIMIT
    partial = accepted(send(secret_key, sent)).partial_success
    assert (partial.rejected_spans, "10000 attributes" in partial.error_message) == (1, True)


def test_a_million_spans_are_refused(secret_key: str):
    many = request()
    many.resource_spans[0].scope_spans[0].spans.extend([span()] * 11_000)
    refusal(send(secret_key, many.SerializeToString()), 400, "at most 10000")


def test_spans_of_very_many_agents_are_refused_and_none_is_made(secret_key: str):
    many = request()
    for number in range(201):
        one = request(span(chat(), id=number + 1), service=f"service-{number}")
        many.resource_spans.extend(one.resource_spans)
    refusal(send(secret_key, many.SerializeToString()), 400, "201 agents")
    assert not Agent.objects.exists()


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": 7, "openinference.span.kind": ["LLM"]},
        chat(gen_ai__input__messages=7, gen_ai__output__messages=True),
        chat(gen_ai__input__messages='[{"role": "user", "parts": [{"type": "text", "content": {"a": 1}}]}]'),
        chat(gen_ai__request__model=["x"], gen_ai__response__id=b"\x00", gen_ai__usage__input_tokens=2**62),
        chat(gen_ai__request__model="x" * 5000, gen_ai__conversation__id="y" * 5000, gen_ai__response__id="z" * 5000),
        chat(service__name="\u202e", metadata="<script>"),
    ],
)
def test_wrong_types_never_break_the_server(secret_key: str, attributes: dict[str, Any]):
    assert send(secret_key, body(span(attributes))).status_code == 200
    assert Client(headers={"authorization": f"Bearer {secret_key}"}).get("/api/v1/traces/").status_code == 200


@pytest.mark.parametrize("place", ["gen_ai.output.messages", "gen_ai.response.id", "gen_ai.request.model", "other"])
def test_what_no_database_holds_is_refused_not_stored(secret_key: str, place: str):
    said = '[{"role": "assistant", "parts": [{"content": "%s"}]}]'
    poison = said % "\\ud800" if place == "gen_ai.output.messages" else "a\x00b"
    partial = accepted(send(secret_key, body(span({**chat(), place: poison}), span(chat(), id=2)))).partial_success
    assert partial.rejected_spans == 1
    assert Trace.objects.count() == 1


@pytest.fixture
def post(secret_key: str) -> Any:
    def send(name: str) -> dict[str, Any]:
        """What was refused, and why."""
        body = (REQUESTS / f"{name}.json").read_bytes()
        answer = Client().post("/v1/traces", body, content_type=JSON, headers={"authorization": f"Bearer {secret_key}"})
        assert answer.status_code == 200, answer.content
        return answer.json().get("partialSuccess", {})

    return send


@pytest.mark.parametrize(
    ("name", "stored"), [("g9_float_in_integer", 1), ("g9_half_surrogate", 2), ("g9_negative_count", 1)]
)
def test_an_odd_value_costs_no_answer(post, name: str, stored: int):
    assert post(name) == {}
    assert [(trace.prompt, trace.response) for trace in Trace.objects.all()] == [(QUESTION, "A!")] * stored


@pytest.mark.parametrize(
    ("name", "thoughts"),
    [
        ("g10_openinference_thinking", ["secret plan"]),
        ("g10_thinking_part", ["secret"]),
        ("g10_messages_on_event", []),
        ("g10_vercel6", []),
    ],
)
def test_question_answer_and_thoughts_are_told_apart(post, name: str, thoughts: list[str]):
    assert post(name) == {}
    trace = Trace.objects.get()
    assert (trace.prompt, trace.response) == (QUESTION, "A!")
    assert [step["content"] for step in trace.reasoning_steps] == thoughts


def test_a_call_among_the_parts_is_a_call(post):
    assert post("g10_openinference_tool_use") == {}
    trace = Trace.objects.get()
    assert trace.response == 'Let me look\n<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    assert trace.details["otel"]["requested"] == [{"name": "f", "arguments": {"a": 1}, "id": "c1"}]


def test_a_question_without_text_is_refused_with_the_reason(post):
    refused = post("g10_empty_parts")
    assert refused["rejectedSpans"] == "1"
    assert "the last message of its user has no text" in refused["errorMessage"]
    assert not Trace.objects.exists()


def test_an_agent_says_its_last_words_after_what_it_did(post):
    assert post("g10_invoke_agent") == {}
    trace = Trace.objects.get()
    assert (trace.prompt, trace.response) == (QUESTION, "Final A!")
    assert [(call["tool_name"], call["arguments"], call["result"]) for call in trace.tool_calls] == [
        ("f", {"a": 1}, "12")
    ]
    run = read_run(tuple(trace.prompt), trace.response, json.dumps(trace.tool_calls), trace.details)
    assert [message["role"] for message in run.steps] == ["assistant", "tool"]
