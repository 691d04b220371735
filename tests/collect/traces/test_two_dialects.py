"""Two instrumentations of one client tell the same answer, each in its own words; it is stored once."""

import json
from dataclasses import replace
from typing import Any

import pytest

from rl.collect.otlp import PROTOBUF, LooseSpan, decode, map_spans
from rl.collect.traces.spans import store
from rl.models import Agent, Feedback, PendingSpan, RunPart, Trace
from tests.collect.otlp.make_spans import chat, evaluation, request, say, span, tool

pytestmark = pytest.mark.django_db
QUESTION = "Where is 4711?"


def deliver(agent: Agent, *spans: Any, scope: str = "genai") -> None:
    sent = request(*spans)
    sent.resource_spans[0].scope_spans[0].scope.name = scope
    mapped = map_spans(decode(sent.SerializeToString(), PROTOBUF), agent=agent.name)
    assert not mapped.refused
    assert not store(agent, mapped.answers, mapped.loose)


def generation(asked: Any = QUESTION, said: Any = "In Bonn.", **more: Any) -> Any:
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": json.dumps(asked) if not isinstance(asked, str) else asked,
        "langfuse.observation.output": json.dumps(said) if not isinstance(said, str) else said,
    }
    return span(attributes, **more)


def answer(**more: Any) -> Any:
    return span(chat(QUESTION, gen_ai__response__id="chatcmpl-1"), **more)


@pytest.mark.database
def test_whoever_comes_first_it_is_stored_once_and_known_by_both_ids(agent: Agent):
    for first, second in (("genai", "langfuse-sdk"), ("langfuse-sdk", "genai")):
        told = {"genai": answer(id=1), "langfuse-sdk": generation(trace=2, id=2, at=0.2)}
        for scope in (first, second, first, second):
            deliver(agent, told[scope], scope=scope)
        stored = Trace.objects.get()
        assert stored.external_id == ("chatcmpl-1" if first == "genai" else f"{2:016x}")
        assert RunPart.objects.filter(trace=stored).exists()
        stored.delete()


def test_in_one_request_the_one_with_the_id_of_the_response_stays(agent: Agent):
    both = request(generation(trace=2, id=2))
    both.resource_spans[0].scope_spans[0].scope.name = "langfuse-sdk"
    both.MergeFrom(request(answer(id=1, at=0.2)))
    mapped = map_spans(decode(both.SerializeToString(), PROTOBUF), agent=agent.name)
    store(agent, mapped.answers, mapped.loose)
    assert Trace.objects.get().external_id == "chatcmpl-1"


def test_what_is_said_of_the_other_span_is_said_of_the_answer(agent: Agent):
    deliver(agent, answer(id=1))
    deliver(agent, generation(trace=2, id=2), scope="langfuse-sdk")
    deliver(agent, span(evaluation("Politeness", 0.75), trace=2, id=9, parent=2), scope="checks")
    assert Feedback.objects.get().trace == Trace.objects.get()
    assert not PendingSpan.objects.exists()


def test_a_score_of_the_other_trace_is_one_of_the_answer(agent: Agent):
    deliver(agent, answer(id=1))
    deliver(agent, generation(trace=2, id=2), scope="langfuse-sdk")
    said = {"kind": "rating", "rater": "ann", "scale": "thumb", "value": 1, "tags": [], "notes": "", "rated_at": None}
    score = LooseSpan(agent=agent.name, trace_id=f"{2:032x}", span_id="f" * 16, of_agent=True)
    store(agent, [], [replace(score, evaluations=[{**said, "metric": "", "response_id": ""}])])
    assert Feedback.objects.get().trace == Trace.objects.get()


def test_where_both_know_the_id_of_the_response_what_the_second_tells_is_added(agent: Agent):
    thinking = chat(QUESTION, gen_ai__response__id="chatcmpl-1")
    parts = [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "In Bonn."}]
    thinking["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": parts}])
    deliver(agent, answer(id=1))
    deliver(agent, span(thinking, trace=2, id=2, at=0.2), scope="openinference")
    assert [step["content"] for step in Trace.objects.get().reasoning_steps] == ["hm"]


@pytest.mark.parametrize(
    ("scope", "at", "said"), [("genai", 0.2, "In Bonn."), ("langfuse-sdk", 11, "In Bonn."), ("langfuse-sdk", 0, "No.")]
)
def test_the_same_instrumentation_a_later_time_and_other_words_are_another_answer(
    agent: Agent, scope: str, at: float, said: str
):
    deliver(agent, answer(id=1))
    deliver(agent, generation(said=said, trace=2, id=2, at=at), scope=scope)
    assert Trace.objects.count() == 2


def test_a_loop_of_tools_is_one_run_with_each_call_once(agent: Agent):
    call = {"id": "c1", "type": "function", "function": {"name": "track", "arguments": '{"number": "4711"}'}}
    known = [
        say("user", QUESTION),
        say("assistant", calls={"c1": ("track", {"number": "4711"})}),
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "in Bonn"}]},
    ]
    asked = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "in Bonn"},
    ]
    deliver(
        agent,
        span(chat(QUESTION, "", calls={"c1": ("track", {"number": "4711"})}, gen_ai__response__id="r1"), id=1),
        span(tool(call_id="c1"), id=3, at=1),
        span(chat(gen_ai__input__messages=json.dumps(known), gen_ai__response__id="r2"), id=4, at=2),
    )
    told = {"langfuse.observation.input": '{"number": "4711"}', "langfuse.observation.output": "in Bonn"}
    deliver(
        agent,
        generation(asked[:1], {"role": "assistant", "tool_calls": [call]}, id=11),
        span({"langfuse.observation.type": "tool", **told}, id=13, at=1, name="track"),
        generation(asked, id=14, at=2),
        scope="langfuse-sdk",
    )
    stored = Trace.objects.get()
    assert (stored.llm_calls, stored.response, [call["result"] for call in stored.tool_calls]) == (
        2,
        "In Bonn.",
        ["in Bonn"],
    )
