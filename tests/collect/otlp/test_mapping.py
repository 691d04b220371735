import json
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from rl.collect.otlp import PROTOBUF, Mapped, decode, map_spans, slug
from rl.collect.otlp.mapping import NAME, NO_QUESTION, by_span, evaluations
from rl.collect.traces.imported import ImportedFeedback, problem
from rl.models.traces import is_broken_off
from tests.collect.otlp.make_spans import body, chat, evaluation, inference, span, tool


def mapped(*spans: WireSpan, agent: str = "", **resource: Any) -> Mapped:
    return map_spans(decode(body(*spans, **resource), PROTOBUF), agent=agent)


def test_a_model_call_becomes_an_answer():
    sent = chat(
        gen_ai__response__id="chatcmpl-1",
        gen_ai__conversation__id="talk-9",
        gen_ai__usage__input_tokens=12,
        server__port=8080,
    )
    (found,) = mapped(span(sent, trace=5, id=6, parent=7, seconds=0.5)).answers
    record = found.record
    assert (found.agent, found.kind, found.trace_id, found.span_id) == (
        "support-chat",
        "model",
        f"{5:032x}",
        f"{6:016x}",
    )
    assert (record.external_id, record.session_id, record.model_version) == ("chatcmpl-1", "talk-9", "tiny")
    assert (record.tokens_in, record.llm_calls, record.duration_ms) == (12, 1, 500)
    assert record.occurred_at.isoformat() == "2026-06-01T12:00:00+00:00"
    about = record.details["otel"]
    assert (about["parent_span_id"], about["scope"], about["kind"]) == (f"{7:016x}", "tests", "model")
    assert about["attributes"]["server.port"] == 8080
    assert not [name for name in about["attributes"] if "messages" in name]
    assert problem(record) == ""


def test_without_ids_of_its_own_an_answer_has_those_of_its_span():
    (found,) = mapped(span(chat(gen_ai__response__id="x" * 201), trace=5, id=6)).answers
    assert (found.record.external_id, found.record.session_id) == (f"{6:016x}", f"{5:032x}")
    assert by_span(mapped(span(chat(gen_ai__response__id="r"))).answers[0].record, "s").external_id == "s"


def test_what_the_details_keep_is_bounded():
    many = {f"a{n}": "v" * 5000 for n in range(300)}
    (found,) = mapped(span({**chat(), **many})).answers
    kept = found.record.details["otel"]["attributes"]
    assert len(kept) == 100
    assert max(len(json.dumps(value)) for value in kept.values()) < 1100


def test_a_tool_result_is_bounded():
    (found,) = mapped(span(tool(result="r" * 100_000))).loose
    assert len(found.tool_call["result"]) < 20_100


@pytest.mark.parametrize(
    ("service", "name"),
    [
        ("support-chat", "support-chat"),
        ("My Service/1", "My-Service-1"),
        ("..a..b..", "a.b"),
        ("x" * 80, "x" * 64),
        ("käse", "k-se"),
        ("con", ""),
        ("///", ""),
        ("-" * 70 + "a", "a"),
    ],
)
def test_a_service_becomes_a_name_that_an_agent_can_have(service: str, name: str):
    assert slug(service) == name


def test_a_service_without_a_name_of_its_own_leaves_it_to_the_agent():
    named = span(chat(gen_ai__agent__name="Parcel desk"))
    for service in (None, "unknown_service", "unknown_service:python"):
        assert mapped(named, service=service).answers[0].agent == "Parcel-desk"
    assert mapped(named).answers[0].agent == "support-chat"
    assert mapped(named, agent="mine").answers[0].agent == "mine"


def test_without_any_name_it_is_refused_with_the_variable_to_set():
    found = mapped(span(chat()), span(tool(), id=2), span({}, id=3), service="unknown_service")
    assert [one.where for one in found.refused] == [f"span {1:016x}", f"span {2:016x}"]
    assert "OTEL_SERVICE_NAME" in found.refused[0].reason


def test_a_call_whose_texts_were_not_captured_is_counted():
    bare = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny"}
    half = inference("LLM", input__value="Where?")
    found = mapped(span(bare), span(half, id=2), span(chat(said=""), id=3))
    assert (found.without_content, found.answers, found.refused) == (3, [], [])


def test_an_agent_without_messages_is_nothing():
    found = mapped(span({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}))
    assert (found.without_content, found.answers, found.loose, found.refused) == (0, [], [], [])


def test_evaluations_wait_for_the_answer_of_their_span_or_of_their_parent():
    event = [("gen_ai.evaluation.result", evaluation(score=0.5))]
    found = mapped(
        span(chat(), id=1, events=event),
        span(evaluation(score=1.0), id=2, parent=1, name="gen_ai.evaluation.result"),
        span({"gen_ai.operation.name": "invoke_agent"}, id=3, events=event),
    )
    assert [(one.judges, one.of_agent) for one in found.loose] == [
        (f"{1:016x}", False),
        (f"{1:016x}", False),
        (f"{3:016x}", True),
    ]


def test_what_a_database_cannot_hold_is_refused_alone():
    found = mapped(span(tool(result="a\x00b")), span(tool(), id=2))
    assert [one.reason for one in found.refused] == ["contains a NUL character"]
    assert len(found.loose) == 1


def test_a_message_that_cannot_be_read_is_refused_alone():
    found = mapped(span(chat(gen_ai__input__messages="[")), span(chat(), id=2))
    assert (len(found.refused), len(found.answers)) == (1, 1)


def test_messages_nested_without_end_are_refused():
    deep = (
        '[{"role": "user", "parts": [{"type": "tool_call", "name": "t", "arguments": ' + "[" * 400 + "]" * 400 + "}]}]"
    )
    (found,) = mapped(span(chat(gen_ai__output__messages=deep))).answers
    assert "deeper than 64" in problem(found.record)
    deep = deep.replace("[" * 400, "[" * 100_000)
    assert len(mapped(span(chat(gen_ai__output__messages=deep))).refused) == 1


VERCEL = {
    "ai.operationId": "ai.streamText.doStream",
    "ai.prompt.messages": '[{"role": "user", "content": "Q?"}]',
    "ai.response.text": "A",
    "ai.response.finishReason": "content-filter",
}


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (span(chat(gen_ai__response__finish_reasons=["length"])), "length"),
        (span(chat(), error="gone"), "error"),
        (span(VERCEL), "content-filter"),
        (span(inference("LLM", input__value="Q?", output__value="A", llm__finish_reason="max_tokens")), "max_tokens"),
    ],
)
def test_an_answer_says_why_it_ended_where_it_is_not_to_be_imitated(sent: Any, reason: str):
    (found,) = mapped(sent).answers
    assert found.record.details["finish_reason"] == reason
    assert is_broken_off(found.record.details)


def test_a_question_without_words_is_refused_with_the_reason():
    blank = span(chat(asked=" \n"))
    assert [one.reason for one in mapped(blank).refused] == [NO_QUESTION]


def read(**more: Any) -> list[tuple[str, ImportedFeedback]]:
    (found,) = decode(body(span(**more)), PROTOBUF)
    return list(evaluations(found))


def only(given: dict[str, Any]) -> ImportedFeedback:
    ((_, said),) = read(events=[(NAME, given)])
    return said


def test_a_score_from_0_to_1_is_a_rating_of_the_program_that_gave_it():
    said = only(evaluation("Relevance", 0.75, gen_ai__evaluation__explanation="to the point"))
    assert (said.kind, said.scale, said.value, said.rater) == ("rating", "score", 0.75, "system:Relevance")
    assert (said.tags, said.notes) == ((), "to the point")
    assert said.rated_at.isoformat() == "2026-06-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("label", "score", "value"),
    [("pass", None, 1.0), ("Fail", None, 0.0), ("not relevant", 4.0, 0.0), ("correct", 0.1, 1.0), ("warm", 0.3, 0.3)],
)
def test_a_label_that_says_which_way_goes_before_the_score(label: str, score: float | None, value: float):
    said = only(evaluation("Check", score, label))
    assert (said.kind, said.value, said.tags) == ("rating", value, (label,))


@pytest.mark.parametrize("score", [4.0, -1.0, 1.01, 5])
def test_a_score_on_another_scale_is_an_outcome(score: float):
    said = only(evaluation("Stars", score))
    assert (said.kind, said.metric, said.value) == ("outcome", "Stars", score)


@pytest.mark.parametrize("name", ["Hallucination", "toxicity", "gender_bias", "self-harm", "prompt_injection"])
def test_a_high_score_of_something_bad_is_no_praise(name: str):
    assert only(evaluation(name, 0.9)).kind == "outcome"
    assert only(evaluation(name, 0.9, "fail")).value == 0.0


@pytest.mark.parametrize(
    "given", [{}, evaluation(), evaluation(label="warm"), evaluation(score="0.5"), evaluation(score=True)]
)
def test_without_a_score_or_a_verdict_there_is_nothing(given: dict[str, Any]):
    assert read(events=[(NAME, given)]) == []


def test_a_span_may_be_an_evaluation_and_name_the_response():
    ((response, said),) = read(name=NAME, attributes=evaluation("Check", 1.0, gen_ai__response__id="chatcmpl-1"))
    assert (response, said.value) == ("chatcmpl-1", 1.0)
    assert len(read(attributes=evaluation("Check", 1.0))) == 1


def test_a_span_may_carry_several():
    events = [(NAME, evaluation("a", 0.1)), ("other", evaluation("b", 0.2)), (NAME, evaluation("c", 0.3))]
    assert [said.rater for _, said in read(events=events)] == ["system:a", "system:c"]


def test_long_texts_are_cut_to_what_feedback_takes():
    said = only(evaluation("n" * 500, 7.0, "l" * 500, gen_ai__evaluation__explanation="e" * 9000))
    assert (len(said.rater), len(said.metric), len(said.tags[0]), len(said.notes)) == (200, 100, 60, 4000)
