"""The answers of one loop of tools become one trace, in whatever order they are stored; their ids go on to name it."""

import itertools
import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections

from rl.base.messages import write_call
from rl.collect.feedback import write
from rl.data_formatter.runs import prompt_messages
from rl.dataset_builder.read.runs import read_run
from rl.models import Agent, Arm, Experiment, Feedback, ModelVersion, RunPart, Trace
from rl.serving.gateway import pending
from tests.collect.otlp.make_spans import NOON, SECOND, say, span, tool
from tests.collect.traces.test_joining import looked, model_call, told
from tests.collect.traces.test_spans import deliver
from tests.serving.gateway.test_pending import document
from tests.web.api.conftest import run_together

pytestmark = pytest.mark.django_db
ASKED = [{"role": "user", "content": "Is it warm in Bonn?"}]


def calling(call_id: str, city: str) -> dict[str, Any]:
    function = {"name": "weather", "arguments": {"city": city}}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": call_id}


def answer(agent: Agent, minute: int, steps: list[Any], turn: dict[str, Any], **more: Any) -> dict[str, Any]:
    functions = [call["function"] for call in turn.get("tool_calls", ())]
    calls = [{"tool_name": function["name"], "arguments": function["arguments"]} for function in functions]
    said = "".join(write_call("weather", call["arguments"]) for call in calls)
    words = {"response": turn["content"] or said, "turn": turn, "tool_calls": calls}
    at = f"2026-02-02T10:{minute:02d}:00+00:00"
    return document(agent, prompt=ASKED, steps=steps, occurred_at=at, **words, **more)


def loop(
    agent: Agent, ids: tuple[str, str] = ("c1", "c2"), cities=("Bonn", "Köln"), **more: Any
) -> list[dict[str, Any]]:
    first, second = (calling(call_id, city) for call_id, city in zip(ids, cities, strict=True))
    given = [first, result(ids[0], "7 degrees")]
    last = {"role": "assistant", "content": "No."}
    return [
        answer(agent, 0, [], first, **more),
        answer(agent, 1, given, second, **more),
        answer(agent, 2, [*given, second, result(ids[1], "8")], last, **more),
    ]


def put(*documents: dict[str, Any]) -> list[uuid.UUID]:
    """Into the folder that the gateway's answers wait in."""
    keys = [uuid.uuid4() for _ in documents]
    for key, one in zip(keys, documents, strict=True):
        pending.write(key, one)
    return keys


@pytest.mark.database
@pytest.mark.parametrize("together", [True, False], ids=["at once", "one by one"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_a_loop_of_tools_is_one_trace_in_whatever_order_its_answers_are_stored(agent: Agent, data_dir, order, together):
    keys = put(*loop(agent))
    for part in [order] if together else [[number] for number in order]:
        pending.deliver_these(keys[number] for number in part)
    run = Trace.objects.get()
    assert (run.pk, run.external_id, run.prompt, run.response) == (keys[2], str(keys[2]), ASKED, "No.")
    assert [(call["arguments"], call["result"]) for call in run.tool_calls] == [
        ({"city": "Bonn"}, "7 degrees"),
        ({"city": "Köln"}, "8"),
    ]
    assert (run.tokens_in, run.tokens_out, run.llm_calls, run.duration_ms) == (9, 12, 3, 120_005)
    assert run.occurred_at.isoformat() == "2026-02-02T10:00:00+00:00"
    assert [part["external_id"] for part in run.details["run"]["parts"]] == list(map(str, keys))
    assert dict(RunPart.objects.values_list("pk", "trace")) == {keys[0]: run.pk, keys[1]: run.pk}


def test_answers_that_are_delivered_again_change_nothing(agent: Agent, data_dir):
    documents = loop(agent)
    keys = put(*documents)
    pending.deliver_all()
    before = Trace.objects.values().get()
    for key, one in zip(keys, documents, strict=True):
        pending.write(key, one)
    pending.deliver_all()
    assert Trace.objects.values().get() == before


def test_rows_have_the_calls_and_their_results(agent: Agent, data_dir):
    put(*loop(agent))
    pending.deliver_all()
    row = Trace.objects.get()
    run = read_run(tuple(row.prompt), row.response, json.dumps(row.tool_calls), row.details)
    assert [message["role"] for message in run.steps] == ["assistant", "tool", "assistant", "tool"]


@pytest.mark.database
def test_an_answer_that_somebody_rated_stays_as_it_was_rated(agent: Agent, data_dir):
    first, second, last = loop(agent)
    keys = put(first)
    pending.deliver_all()
    write.rate(Trace.objects.get(), rater="user:anna", scale="thumb", value=0, source="test")
    keys += put(second, last)
    pending.deliver_all()
    assert set(Trace.objects.values_list("pk", "llm_calls")) == {(keys[0], 1), (keys[2], 2)}
    assert Feedback.objects.get().trace_id == keys[0]
    assert len(Trace.objects.get(pk=keys[2]).tool_calls) == 2


@pytest.mark.database
def test_a_run_that_was_rated_at_once_takes_in_its_earlier_answers(agent: Agent, data_dir):
    keys = put(*loop(agent))
    pending.deliver_named([str(keys[2])])
    write.rate(Trace.objects.get(), rater="user:anna", scale="thumb", value=1, source="test")
    pending.deliver_all()
    run = Trace.objects.get()
    assert (run.pk, run.llm_calls, run.feedback.count()) == (keys[2], 3, 1)


@pytest.mark.database
def test_every_answer_counts_for_its_arm(agent: Agent, data_dir):
    trial = Experiment.objects.create(agent=agent, name="trial", state="running")
    arm = Arm.objects.create(experiment=trial, is_control=True)
    put(*loop(agent, arm_id=arm.pk, experiment_id=trial.pk))
    pending.deliver_all()
    arm.refresh_from_db()
    assert (arm.requests, Trace.objects.get().arm) == (3, arm)


@pytest.mark.database
@pytest.mark.parametrize("other", ["user", "session", "version", "call"])
def test_what_is_not_of_the_run_does_not_join(agent: Agent, data_dir, other):
    first, second, _ = loop(agent)
    if other == "call":
        second = loop(agent, cities=("Ulm", "Köln"))[1]  # under the same id
    version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1)
    changes = {"user": {"unit": "bert"}, "session": {"session_id": "s2"}, "version": {"model_version_id": version.pk}}
    put(first, {**second, **changes.get(other, {})})
    pending.deliver_all()
    assert sorted(Trace.objects.values_list("llm_calls", flat=True)) == [1, 1]


def test_a_file_of_an_older_release_is_stored_as_it_says(agent: Agent, data_dir):
    (key,) = put(document(agent))
    pending.deliver_all()
    assert "run" not in Trace.objects.get(pk=key).details


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
def test_processes_that_store_answers_of_one_run_at_once_make_one_trace(agent: Agent, data_dir):
    keys = put(*loop(agent))
    left = list(keys)

    def deliver_one() -> None:
        pending.deliver_these([left.pop()])
        connections.close_all()

    run_together(deliver_one, 3)
    assert Trace.objects.get().pk == keys[2]
    assert set(RunPart.objects.values_list("pk", flat=True)) == set(keys[:2])


def told_by_spans(keys: list[str], more: dict[str, Any]) -> list[Any]:
    """The calls of the loop as a client tells them, each in a trace of its own."""
    given, calls = [say("user", ASKED[0]["content"])], []
    for key, call_id, city, words in ((keys[0], "c1", "Bonn", "7 degrees"), (keys[1], "c2", "Köln", "8")):
        calls.append(model_call(given, looked(call_id, city), key))
        given += [looked(call_id, city), told(call_id, words)]
    calls.append(model_call(given, say("assistant", "No."), keys[2]))
    began = (
        datetime.fromisoformat("2026-02-02T10:00:00+00:00") - datetime.fromtimestamp(NOON // SECOND, UTC)
    ).total_seconds()
    return [
        span({**made, **more}, trace=number, id=number, at=began + 60 * number - 59)
        for number, made in enumerate(calls, start=1)
    ]


@pytest.mark.database
@pytest.mark.parametrize("has_ids", [True, False], ids=["with ids", "without ids"])
@pytest.mark.parametrize("order", ["each after its answer", "all after the last", "backwards", "twice"])
def test_spans_of_the_same_loop_add_to_the_trace(agent: Agent, data_dir, order: str, has_ids: bool):
    """A client that counts otherwise, and has a conversation of its own, changes nothing of what the gateway knows."""
    documents, keys = loop(agent), [uuid.uuid4() for _ in range(3)]
    ids = list(map(str, keys)) if has_ids else [""] * 3
    sent = told_by_spans(ids, {"gen_ai.conversation.id": "talk-9", "gen_ai.usage.input_tokens": 99})
    for key, one, told_of in zip(keys, documents, sent, strict=True):
        pending.write(key, one)
        pending.deliver_all()
        if order == "each after its answer":
            assert deliver(agent, told_of) == []
    if order != "each after its answer":
        assert deliver(agent, *(sent[::-1] if order == "backwards" else sent)) == []
    if order == "twice":
        assert deliver(agent, *sent) == []
    assert deliver(agent, span(tool(name="weather", call_id="c2"), trace=3, id=9, seconds=0.25)) == []
    run = Trace.objects.get()
    assert (run.pk, run.source, run.session_id, run.tokens_in, run.llm_calls) == (keys[2], "gateway", "s1", 9, 3)
    assert (run.otel_trace_id, run.details.get("model_version")) == (f"{3:032x}", None)
    assert [call["duration_ms"] for call in run.tool_calls] == [None, 250]
    assert len(run.details["messages"]) == 6


def test_earlier_turns_of_a_prompt_have_their_calls_as_data(agent: Agent, data_dir):
    words = '<tool_call>{"name": "weather", "arguments": {"city": "Bonn"}}</tool_call>'
    prompt = [
        *ASKED,
        {**calling("c1", "Bonn"), "content": words},
        result("c1", "7"),
        {"role": "user", "content": "Thanks"},
    ]
    (key,) = put(document(agent, prompt=prompt, steps=[], turn={"role": "assistant", "content": "On its way."}))
    pending.deliver_all()
    trace = Trace.objects.get(pk=key)
    assert trace.prompt[1] == {"role": "assistant", "content": words}
    run = read_run(tuple(trace.prompt), trace.response, "[]", trace.details)
    assert prompt_messages(run.prompt)[1] == calling("c1", "Bonn")


@pytest.mark.parametrize("text", ["", "Let me look.\n"])
def test_calls_that_an_answer_ends_with_stand_in_its_row_once(text: str):
    """As when a client asks for a typed answer by a tool, and is never told what came of it."""
    written = [write_call("weather", {"city": city}) for city in ("Bonn", "Köln")]
    calls = [{"tool_name": "weather", "arguments": {"city": city}} for city in ("Ulm", "Bonn", "Köln")]
    run = read_run(tuple(ASKED), text + "\n".join(written), json.dumps(calls), {})
    assert [message["role"] for message in run.steps] == ["assistant", "tool"]
    assert run.steps[0]["tool_calls"][0]["function"]["arguments"] == {"city": "Ulm"}
