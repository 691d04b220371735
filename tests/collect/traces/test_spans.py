"""What arrives over OpenTelemetry is put together, whatever the order and however often it comes."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from rl.collect.otlp import PROTOBUF, decode, map_spans
from rl.collect.traces import spans
from rl.collect.traces.imported import Rejected
from rl.models import Agent, Feedback, PendingSpan, Trace, TrainingSetTrace
from tests.admin.records import make_training_set
from tests.collect.otlp.make_spans import NOON, body, chat, evaluation, inference, span, tool
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate
from tests.web.api.conftest import run_together

RESULT = "gen_ai.evaluation.result"
pytestmark = [pytest.mark.database, pytest.mark.django_db]


def deliver(agent: Agent, *sent: WireSpan) -> list[Rejected]:
    mapped = map_spans(decode(body(*sent), PROTOBUF))
    return [*mapped.refused, *spans.store(agent, mapped.answers, mapped.loose)]


def results() -> dict[str, list[Any]]:
    """Response to the results of its tool calls, in their order."""
    return {one.response: [call["result"] for call in one.tool_calls] for one in Trace.objects.all()}


CALLS = {"c1": ("track", {"number": "4711"})}


def test_an_answer_is_stored_with_its_trace(agent: Agent):
    assert deliver(agent, span(chat("Where?", "Here.", gen_ai__response__id="r1"), trace=5)) == []
    trace = Trace.objects.get()
    assert (trace.source, trace.external_id, trace.otel_trace_id, trace.session_id) == (
        "otel",
        "r1",
        *[f"{5:032x}"] * 2,
    )
    assert (trace.prompt, trace.response) == ([{"role": "user", "content": "Where?"}], "Here.")
    assert (trace.duration_ms, trace.llm_calls, trace.details["model_version"]) == (1000, 1, "tiny")


def test_a_tool_call_comes_to_the_answer_that_asked_for_it(agent: Agent):
    deliver(
        agent,
        span(chat(said="", calls=CALLS), id=1),
        span(chat(said="Done."), id=2, at=5),
        span(tool(call_id="c1", result="in Bonn"), id=3, at=6, seconds=0.25, error="slow"),
    )
    asking = Trace.objects.get(response__startswith="<tool_call>")
    (call,) = asking.tool_calls
    assert (call["tool_name"], call["arguments"], call["result"]) == ("track", {"number": "4711"}, "in Bonn")
    assert (call["success"], call["error"], call["duration_ms"]) == (False, "slow", 250)
    assert call["timestamp"] == "2026-06-01T12:00:06+00:00"
    assert Trace.objects.get(response="Done.").tool_calls == []
    assert not PendingSpan.objects.exists()


def test_a_tool_call_waits_for_its_answer(agent: Agent):
    deliver(agent, span(tool(call_id="c1"), id=3, at=2))
    assert PendingSpan.objects.get().span_id == f"{3:016x}"
    deliver(agent, span(chat(said="", calls=CALLS), trace=2))  # another trace
    assert PendingSpan.objects.count() == 1
    deliver(agent, span(chat(said="Yes.", calls=CALLS), id=2))
    assert results()["Yes.\n" + Trace.objects.get(otel_trace_id=f"{2:032x}").response] == ["in Bonn"]
    assert not PendingSpan.objects.exists()


def test_a_tool_call_makes_the_reward_due_again(agent: Agent):
    deliver(agent, span(chat()))
    Trace.objects.update(reward_pending=False)
    deliver(agent, span(chat()))
    assert not Trace.objects.get().reward_pending
    deliver(agent, span(tool(), id=2, at=2))
    assert Trace.objects.get().reward_pending


def test_an_answer_that_comes_late_takes_over_its_tool_call(agent: Agent):
    deliver(agent, span(chat(said="first"), id=1, at=0), span(tool(), id=9, at=10))
    assert results() == {"first": ["in Bonn"]}
    deliver(agent, span(chat(said="second"), id=2, at=5))
    assert results() == {"first": [], "second": ["in Bonn"]}


def test_tool_calls_that_another_way_in_stored_stay(agent: Agent):
    deliver(agent, span(chat()))
    Trace.objects.update(tool_calls=[{"tool_name": "by hand"}])
    deliver(agent, span(tool(), id=2, at=2))
    assert [call["tool_name"] for call in Trace.objects.get().tool_calls] == ["by hand", "track"]


CONVERSATION = [
    span(chat(said="", calls=CALLS, gen_ai__response__id="r1"), id=1, at=0),
    span(tool(call_id="c1", result="one"), id=2, at=1),
    span(tool("look", result="two"), id=3, at=2),
    span(chat(said="Let me see.", gen_ai__response__id="r2"), id=4, at=3, events=[(RESULT, evaluation(score=0.5))]),
    span(tool("look", result="three"), id=5, at=4),
    span(tool("look", result="four"), id=6, at=5),
    span(inference("LLM", input__value="And now?", output__value="It is in Bonn."), id=7, at=6),
    span({**evaluation("Stars", 4.0), "gen_ai.response.id": "r2"}, id=8, at=7, name=RESULT),
    span(evaluation("Check", label="pass"), id=9, parent=7, at=7, name=RESULT),
    span({"gen_ai.operation.name": "embeddings"}, id=10),
]


def snapshot() -> tuple[Any, ...]:
    traces = Trace.objects.order_by("external_id").values_list("external_id", "response", "tool_calls", "details")
    said = Feedback.objects.order_by("rater").values_list("trace__external_id", "rater", "kind", "value", "raw_value")
    return list(traces), list(said), PendingSpan.objects.count()


@settings(max_examples=15)
@given(order=st.permutations(CONVERSATION), sizes=st.lists(st.integers(1, 5), min_size=10, max_size=10), data=st.data())
def test_neither_the_order_nor_the_batches_nor_repeats_matter(agent: Agent, order, sizes, data):
    Trace.objects.all().delete()
    PendingSpan.objects.all().delete()
    batches = []
    while order:
        batches.append(order[: sizes[len(batches)]])
        order = order[len(batches[-1]) :]
    again = data.draw(st.lists(st.sampled_from(batches), max_size=3))
    for batch in [*batches, *again]:
        assert deliver(agent, *batch) == []
    traces, said, pending = snapshot()
    assert [[call["result"] for call in calls] for _, _, calls, _ in traces] == [[], ["one", "two"], ["three", "four"]]
    assert said == [
        (f"{7:016x}", "system:Check", "rating", 1.0, 1.0),
        ("r2", "system:Relevance", "rating", 0.5, 0.5),
        ("r2", "system:Stars", "outcome", None, 4.0),
    ]
    assert pending == 0


def test_the_same_batch_again_changes_nothing(agent: Agent):
    deliver(agent, *CONVERSATION)
    before = snapshot()
    Trace.objects.update(reward_pending=False)
    events = list(Feedback.objects.values_list("pk", flat=True))
    deliver(agent, *CONVERSATION)
    assert snapshot() == before
    assert list(Feedback.objects.values_list("pk", flat=True)) == events
    assert not Trace.objects.filter(reward_pending=True).exists()


def test_a_batch_whose_evaluations_contradict_each_other_changes_nothing_either(agent: Agent):
    verdicts = [(RESULT, evaluation("Check", score=score)) for score in (0.0, 1.0)]
    batch = [span(chat("Where?", "Here.", gen_ai__response__id="r1"), events=verdicts)]
    for _ in range(2):
        deliver(agent, *batch)
        assert Feedback.objects.get().value == 1


def test_two_answers_with_the_same_response_id_are_both_kept(agent: Agent):
    """Ollama draws its ids from a thousand."""
    for _ in range(2):
        sent = [span(chat(said=said, gen_ai__response__id="chatcmpl-7"), id=id) for id, said in ((1, "a"), (2, "b"))]
        assert deliver(agent, *sent) == []
    ids = dict(Trace.objects.values_list("response", "external_id"))
    assert ids == {"a": "chatcmpl-7", "b": f"{2:016x}"}


def test_an_answer_that_a_server_posted_is_the_same_one(agent: Agent):
    first = make_trace(agent, "Where is 4711?", "In Bonn.", external_id="chatcmpl-1")
    deliver(agent, span(chat(gen_ai__response__id="chatcmpl-1")), span(tool(), id=2, at=2))
    trace = Trace.objects.get()
    assert (trace.pk, trace.source, len(trace.tool_calls)) == (first.pk, "api", 1)


def agents_span(said: str, **more: Any) -> WireSpan:
    return span({**chat(said=said), "gen_ai.operation.name": "invoke_agent"}, **more)


def test_an_agent_is_an_answer_only_where_its_model_says_nothing(agent: Agent):
    deliver(agent, agents_span("whole", id=1))
    deliver(agent, agents_span("whole", id=1))
    deliver(agent, agents_span("known", id=2, trace=2), span(chat(said="part"), id=3, trace=2))
    deliver(agent, agents_span("later", id=4, trace=2))
    assert sorted(results()) == ["part", "whole"]


def test_an_agent_gives_way_to_the_calls_of_its_model_that_come_later(agent: Agent):
    whole = agents_span("done", id=1, events=[(RESULT, evaluation(score=1.0))])
    deliver(agent, whole, span(tool(), id=5, at=2))
    assert [call["tool_name"] for call in Trace.objects.get().tool_calls] == ["track"]
    deliver(agent, span(chat(said="first"), id=2, at=1), span(chat(said="done"), id=3, at=3))
    deliver(agent, whole)
    assert (results(), Trace.objects.count()) == ({"first": ["in Bonn"], "done": []}, 2)
    assert Feedback.objects.get().trace.response == "done"


@pytest.mark.parametrize("words", ["done", "other words"])
def test_what_a_person_said_of_an_agent_is_said_of_the_call_with_the_same_words(agent: Agent, words: str):
    deliver(agent, agents_span("done", id=1))
    rate(Trace.objects.get(), 1)
    deliver(agent, span(chat(said=words), id=2, at=1))
    assert Feedback.objects.get().trace.response == "done"
    assert sorted(Trace.objects.values_list("response", flat=True)) == sorted({"done", words})
    assert Trace.objects.get(response=words).details["otel"]["kind"] == "model"


def test_what_is_in_a_training_set_stays(agent: Agent):
    deliver(agent, agents_span("done", id=1))
    TrainingSetTrace.objects.create(training_set=make_training_set(agent), trace=Trace.objects.get())
    deliver(agent, span(chat(said="done"), id=2, at=1))
    assert Trace.objects.count() == 2


def of_gateway(agent: Agent, response: str, seconds: int = 0) -> Trace:
    at = datetime.fromtimestamp(NOON // 10**9, UTC) + timedelta(seconds=seconds)
    trace = make_trace(agent, "Where is 4711?", response, source="gateway", occurred_at=at)
    Trace.objects.filter(pk=trace.pk).update(external_id=str(trace.pk))
    return trace


def test_a_client_without_ids_tells_of_the_gateways_answers(agent: Agent):
    same = [of_gateway(agent, "In Bonn.", seconds) for seconds in (0, 4)]
    of_gateway(agent, "In Bonn.", -60)
    said = {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "In Bonn."}
    named = inference("LLM", input__value="Where is 4711?", llm__model_name="tiny", **said)
    for _ in range(2):
        assert deliver(agent, span(named, id=1, at=0.1), span(named, id=2, trace=2, at=4.1)) == []
    assert Trace.objects.count() == 3
    told = [Trace.objects.get(pk=trace.pk) for trace in same]
    assert [trace.otel_trace_id for trace in told] == [f"{number:032x}" for number in (1, 2)]
    deliver(agent, span(named, id=3, trace=3, at=4.2))
    assert Trace.objects.count() == 4


def test_an_evaluation_of_an_agent_judges_its_last_answer(agent: Agent):
    judged = span({"gen_ai.operation.name": "invoke_agent"}, id=9, events=[(RESULT, evaluation(score=1.0))])
    deliver(agent, judged)
    assert PendingSpan.objects.count() == 1
    deliver(agent, span(chat(said="one"), id=1), span(chat(said="two"), id=2, at=3))
    assert Feedback.objects.get().trace.response == "two"
    assert not PendingSpan.objects.exists()


def test_what_cannot_be_stored_is_named_and_the_rest_is_stored(agent: Agent):
    refused = deliver(agent, span(chat(said="a\x00b"), id=1), span(chat(), id=2))
    assert [one.reason for one in refused] == ["response contains a NUL character"]
    assert Trace.objects.count() == 1


def test_agents_do_not_see_each_others_spans(agent: Agent):
    other = Agent.objects.create(name="billing")
    deliver(agent, span(tool(), id=2, at=2))
    deliver(other, span(chat(), id=1))
    assert Trace.objects.get().tool_calls == []
    assert PendingSpan.objects.get().agent == agent


def test_what_has_waited_for_a_day_is_forgotten(agent: Agent):
    deliver(agent, span(tool(), id=2), span(tool(), id=3))
    PendingSpan.objects.filter(span_id=f"{2:016x}").update(received_at=timezone.now() - timedelta(hours=25))
    assert spans.forget_pending() == 1
    assert PendingSpan.objects.get().span_id == f"{3:016x}"


def test_many_spans_take_few_queries(agent: Agent, django_assert_max_num_queries):
    sent = [span(chat(said=f"answer {n}"), id=2 * n + 1, trace=n + 1) for n in range(150)]
    sent += [span(tool(), id=2 * n + 2, trace=n + 1, at=2) for n in range(150)]
    with django_assert_max_num_queries(40):
        deliver(agent, *sent)
    assert Trace.objects.exclude(tool_calls=[]).count() == 150


@pytest.mark.django_db(transaction=True)
def test_an_answer_and_its_tool_call_may_arrive_at_the_same_moment(agent: Agent):
    work = [[span(chat(said=f"{n}"), id=2 * n + 1, trace=n + 1)] for n in range(6)]
    work += [[span(tool(), id=2 * n + 2, trace=n + 1, at=2)] for n in range(6)]

    def worker() -> None:
        try:
            while work:
                deliver(agent, *work.pop(len(work) // 2))
        finally:
            connection.close()

    run_together(worker, 4)
    assert all(found == ["in Bonn"] for found in results().values())
    assert len(results()) == 6
    assert not PendingSpan.objects.exists()


def test_the_index_finds_the_answers_of_a_trace(agent: Agent):
    deliver(agent, span(chat()))
    found = Trace.objects.filter(agent=agent, otel_trace_id__in=[f"{1:032x}"]).order_by()
    if connection.vendor == "sqlite":
        assert "trace_otel" in found.explain()
    assert json.loads(json.dumps(found.get().details))["otel"]["span_id"] == f"{1:016x}"
