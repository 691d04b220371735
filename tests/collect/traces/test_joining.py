"""The calls of a model that one run of an agent consists of become one answer."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from rl.base.messages import requested_calls
from rl.collect.traces.joining import Asker, asker_of, judged_by
from rl.data_formatter.runs import prompt_messages
from rl.dataset_builder.read.runs import read_run
from rl.models import Agent, Trace, prompt_key
from tests.collect.otlp.make_spans import chat, inference, say, span, tool
from tests.collect.traces.test_spans import deliver

pytestmark = pytest.mark.django_db
ASKED = [say("system", "Be brief."), say("user", "Is it warm in Bonn?")]


def looked(call_id: str, city: str) -> dict[str, Any]:
    return say("assistant", calls={call_id: ("weather", {"city": city})})


def told(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": text}]}


def model_call(given: list[Any], answer: dict[str, Any], response: str, **more: Any) -> dict[str, Any]:
    return {
        **chat(gen_ai__response__id=response, gen_ai__usage__input_tokens=10, gen_ai__usage__output_tokens=2, **more),
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([answer]),
    }


def loop(call_id: str = "c1", response: str = "r", first: int = 1, **more: Any) -> list[WireSpan]:
    """A loop of three calls, as OpenAI's client makes it: nothing holds them together but the ids of the tool calls."""
    second = f"{call_id}b"
    given = [*ASKED, looked(call_id, "Bonn"), told(call_id, "7 degrees")]
    calls = [
        model_call(ASKED, looked(call_id, "Bonn"), f"{response}1", **more),
        model_call(given, looked(second, "Köln"), f"{response}2", **more),
        model_call(
            [*given, looked(second, "Köln"), told(second, "8")], say("assistant", "No."), f"{response}3", **more
        ),
    ]
    return [span(made, trace=first + n, id=first + n, at=first * 10 + 2 * n) for n, made in enumerate(calls)]


def only_run() -> Trace:
    run = Trace.objects.get()
    assert [message["role"] for message in run.prompt] == ["system", "user"]
    assert all(set(message) == {"role", "content"} for message in run.prompt)
    assert [(call["arguments"], call["result"]) for call in run.tool_calls] == [
        ({"city": "Bonn"}, "7 degrees"),
        ({"city": "Köln"}, "8"),
    ]
    return run


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "a batch each"])
def test_a_loop_of_tools_is_one_answer_in_whatever_order_its_calls_come(agent: Agent, order, together):
    calls = [loop()[number] for number in order]
    for batch in [calls] if together else [[call] for call in calls]:
        assert deliver(agent, *batch) == []
    run = only_run()
    assert (run.response, run.external_id) == ("No.", "r3")
    assert (run.tokens_in, run.tokens_out, run.llm_calls, run.duration_ms) == (30, 6, 3, 5000)
    assert run.occurred_at.second == 10
    assert [part["external_id"] for part in run.details["otel"]["parts"]] == ["r1", "r2", "r3"]


def test_the_same_calls_again_change_nothing(agent: Agent):
    deliver(agent, *loop())
    before = Trace.objects.values().get()
    Trace.objects.update(reward_pending=False)
    for batch in ([call] for call in [*loop(), *loop()]):
        deliver(agent, *batch)
    assert Trace.objects.values().get() == {**before, "reward_pending": False}


@pytest.mark.database
@pytest.mark.parametrize("second_id", ["d1", "c1"], ids=["ids of their own", "ids that repeat"])
def test_two_runs_are_two_answers(agent: Agent, second_id):
    for batch in ([call] for call in [*loop(), *loop(second_id, "s", first=11)]):
        deliver(agent, *batch)
    assert sorted(Trace.objects.values_list("external_id", "llm_calls")) == [("r3", 3), ("s3", 3)]
    assert len(set(Trace.objects.values_list("session_id", flat=True))) == 2


@pytest.mark.database
def test_runs_at_the_same_time_are_told_apart_by_their_conversation(agent: Agent):
    first = loop("call_0", "r", gen_ai__conversation__id="talk 1")
    other = loop("call_0", "s", first=5, gen_ai__conversation__id="talk 2")
    for calls in zip(first, other, strict=True):
        deliver(agent, *calls)
    assert sorted(Trace.objects.values_list("session_id", "external_id")) == [("talk 1", "r3"), ("talk 2", "s3")]


def test_the_spans_of_tools_say_how_long_they_took_and_the_model_with_what_they_were_called(agent: Agent):
    calls = [
        span(model_call(ASKED, looked("c1", "Bonn"), "r1"), id=1),
        span(
            inference("TOOL", tool__name="weather", input__value="Bonn", tool_call__id="c1"), id=2, at=2, seconds=0.25
        ),
        span(model_call([*ASKED, looked("c1", "Bonn"), told("c1", "7")], say("assistant", "No."), "r2"), id=3, at=4),
    ]
    for batch in ([call] for call in calls):
        deliver(agent, *batch)
    [call] = Trace.objects.get().tool_calls
    assert (call["arguments"], call["duration_ms"], call["call_id"]) == ({"city": "Bonn"}, 250, "c1")


def test_a_conversation_that_the_server_keeps_is_joined_by_its_tool_calls(agent: Agent):
    deliver(agent, span(model_call(ASKED, looked("c1", "Bonn"), "r1"), id=1, trace=1))
    news = model_call([told("c1", "7")], say("assistant", "No."), "r2")
    deliver(agent, span(news, id=2, trace=1, at=3))
    run = Trace.objects.get()
    assert (run.response, run.prompt[-1]["content"]) == ("No.", "Is it warm in Bonn?")
    assert [(call["arguments"], call["result"]) for call in run.tool_calls] == [({"city": "Bonn"}, "7")]


@pytest.mark.database
def test_answers_that_a_server_posted_stay_answers_of_their_own(agent: Agent):
    deliver(agent, loop()[0])
    given = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Is it warm in Bonn?"},
        {"role": "assistant", "content": '<tool_call>{"name": "weather", "arguments": {"city": "Bonn"}}</tool_call>'},
        {"role": "tool", "content": "7 degrees"},
    ]
    answer = '<tool_call>{"name": "weather", "arguments": {"city": "Köln"}}</tool_call>'
    Trace.objects.create(agent=agent, prompt=given, response=answer, external_id="r2")
    deliver(agent, loop()[1])
    assert sorted(Trace.objects.values_list("external_id", flat=True)) == ["r1", "r2"]


def test_a_tool_of_another_run_does_not_join(agent: Agent):
    deliver(agent, loop()[0])
    deliver(agent, span(tool(call_id="c9"), id=99, trace=1, at=12))
    assert Trace.objects.get().tool_calls == []


def test_the_tools_that_were_offered_are_kept(agent: Agent):
    definition = {"type": "function", "name": "weather", "description": "How warm.", "parameters": {"type": "object"}}
    deliver(agent, span({**chat(), "gen_ai.tool.definitions": json.dumps([definition])}))
    [schema] = Trace.objects.get().details["tools"]
    assert schema["function"] == {"name": "weather", "description": "How warm.", "parameters": {"type": "object"}}


@pytest.mark.parametrize("goes_on", [False, True], ids=["words", "a loop of tools"])
def test_earlier_turns_of_a_prompt_have_their_calls_as_data(agent: Agent, goes_on):
    before = [
        *ASKED,
        looked("c1", "Bonn"),
        told("c1", "7 degrees"),
        say("assistant", "No."),
        say("user", "And in Köln?"),
    ]
    if goes_on:
        deliver(agent, span(model_call(before, looked("c2", "Köln"), "r1"), id=1))
        given = [*before, looked("c2", "Köln"), told("c2", "8")]
    else:
        given = before
    deliver(agent, span(model_call(given, say("assistant", "Nor there."), "r2"), id=2, at=5))
    trace = Trace.objects.get()
    assert all(set(message) == {"role", "content"} for message in trace.prompt)
    run = read_run(tuple(trace.prompt), trace.response, json.dumps(trace.tool_calls), trace.details)
    prompt = prompt_messages(run.prompt)
    assert [message["content"] for message in prompt] == [
        "Be brief.",
        "Is it warm in Bonn?",
        "",
        "7 degrees",
        "No.",
        "And in Köln?",
    ]
    [call] = requested_calls(prompt[2])
    assert (call.name, call.arguments, call.id, prompt[3]["tool_call_id"]) == ("weather", {"city": "Bonn"}, "c1", "c1")
    assert prompt_key(run.prompt) == trace.prompt_key
    assert len(run.steps) == 2 * goes_on


NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def asked(key: str, minute: int, *requested: tuple[str, str]) -> Asker:
    wanted = tuple({"id": id, "name": name, "arguments": None} for id, name in requested)
    return Asker(key, key, NOON + timedelta(minutes=minute), wanted)


def call(minute: float, name: str = "track", call_id: str = "") -> dict[str, Any]:
    began = (NOON + timedelta(minutes=minute)).isoformat()
    return {"tool_name": name, "call_id": call_id, "timestamp": began, "span_id": "x"}


ANSWERS = [asked("first", 0, ("c1", "track")), asked("second", 2, ("c2", "pay")), asked("last", 4)]


@pytest.mark.parametrize(
    ("item", "key"),
    [
        (call(3, call_id="c1"), "first"),
        (call(-1, call_id="c2"), "second"),
        (call(3, call_id="nobody's"), None),
        (call(3, "track"), "first"),
        (call(3, "pay"), "second"),
        (call(3, "sing"), "second"),
        (call(9, "sing"), "last"),
        (call(-1, "track"), None),
        ({**call(0, "track"), "timestamp": ""}, "first"),
        ({**call(0, "sing"), "timestamp": "yesterday"}, "last"),
    ],
)
def test_the_answer_that_asked_for_a_call(item: dict[str, Any], key: str | None):
    for answers in (ANSWERS, ANSWERS[::-1]):
        found = asker_of(item, answers)
        assert (found.key if found else None) == key


def test_without_answers_nobody_asked():
    assert asker_of(call(1), []) is None
    assert judged_by("first", True, []) is None


def test_an_evaluation_judges_the_answer_of_its_span():
    assert judged_by("second", False, ANSWERS).key == "second"
    assert judged_by("elsewhere", False, ANSWERS) is None


def test_an_evaluation_of_an_agent_judges_its_last_answer():
    assert judged_by("elsewhere", True, ANSWERS[::-1]).key == "last"
    assert judged_by("first", True, ANSWERS).key == "first"
