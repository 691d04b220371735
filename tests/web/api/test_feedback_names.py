"""Answers named by the id that they had where they were given."""

import json
from typing import Any

import pytest

from rl.models import Agent, Feedback, Trace
from tests.collect.traces.test_joining import loop
from tests.conftest import make_trace
from tests.web.api.conftest import Caller, assert_problem, key_for
from tests.web.api.test_otlp import accepted, body, chat, send, span

URL, NAME = "/api/v1/feedback/", "chatcmpl-AbC123"
pytestmark = pytest.mark.django_db
KINDS: list[dict[str, Any]] = [
    {"scale": "thumb", "value": 1},
    {"kind": "correction", "text": "It is in Bonn."},
    {"kind": "outcome", "metric": "solved", "value": 1},
    {"kind": "comparison", "other_trace": "chatcmpl-other", "choice": "left"},
]


@pytest.fixture
def named(agent: Agent) -> Trace:
    make_trace(agent, response="Other.", external_id="chatcmpl-other")
    return make_trace(agent, external_id=NAME)


@pytest.mark.parametrize("said", KINDS)
def test_one_call_says_something_of_it(server: Caller, named: Trace, said: dict[str, Any]):
    answer = server.post(URL, {"trace": NAME, "rater": "anna", **said})
    assert (answer.status_code, answer.json()["trace"]) == (201, str(named.pk))


def test_an_answer_of_opentelemetry_is_rated_by_the_id_of_its_response(server: Caller, secret_key: str):
    accepted(send(secret_key, body(span(chat(gen_ai__response__id=NAME)))))
    assert server.post(URL, {"trace": NAME, "rater": "anna", "scale": "stars", "value": 5}).status_code == 201
    assert Feedback.objects.get().trace.external_id == NAME
    withdrawn = server.post(f"{URL}retract/", {"trace": NAME, "rater": "anna"})
    assert withdrawn.json() == {"retracted": True}


@pytest.mark.database
@pytest.mark.parametrize("at_once", [True, False])
def test_earlier_calls_of_a_run_are_rated_as_the_run(server: Caller, secret_key: str, at_once: bool):
    for spans in [loop()] if at_once else [[one] for one in loop()]:
        accepted(send(secret_key, body(*spans)))
    run = Trace.objects.get()
    for said, name in zip(KINDS, ("r1", "r2", "r3"), strict=False):
        answer = server.post(URL, {"trace": name, "rater": "anna", **said})
        assert (answer.status_code, answer.json()["trace"]) == (201, str(run.pk))
    entry = {"entry_id": "r1", "device_id": "phone", "rating": "down"}
    assert server.post("/api/v1/ratings/", entry).status_code == 201
    assert set(Feedback.objects.values_list("trace", flat=True)) == {run.pk}
    assert_problem(rate(Caller(key_for(Agent.objects.create(name="third"))), "r1"), 404)


def test_lines_name_answers_so_too(server: Caller, named: Trace):
    lines = [{"trace": name, "rater": "anna", "scale": "thumb", "value": 1} for name in (NAME, str(named.pk), "gone")]
    sent = "\n".join(map(json.dumps, lines))
    results = server.raw(URL, sent, "application/x-ndjson").json()["results"]
    assert [one["status"] for one in results] == [201, 200, 404]


def test_a_name_that_nobody_or_two_agents_have_is_refused_with_the_reason(server: Caller, named: Trace):
    assert "no trace 'gone'" in assert_problem(rate(server, "gone"), 404)["detail"]
    other = Agent.objects.create(name="other")
    twin = make_trace(other, external_id=NAME)
    assert "several agents" in assert_problem(rate(server, NAME), 400)["detail"]
    for of in ({"agent": "Other"}, {"agent": "support-chat"}):
        rated = server.post(URL, {"trace": NAME, "rater": "bert", "scale": "thumb", "value": 1, **of})
        assert rated.json()["agent"] == of["agent"].lower()
    assert rate(Caller(key_for(other)), NAME).json()["trace"] == str(twin.pk)
    wrong = {"trace": str(twin.pk), "agent": "support-chat", "rater": "bert", "scale": "thumb", "value": 1}
    assert "of the agent 'support-chat'" in assert_problem(server.post(URL, wrong), 404)["detail"]
    assert_problem(rate(Caller(key_for(Agent.objects.create(name="third"))), NAME), 404)


@pytest.mark.parametrize("name", ["", "x" * 201, "\x00", "\ud800", 7.5, None, [NAME], {}])
def test_what_is_no_name_is_refused(server: Caller, named: Trace, name: Any):
    assert_problem(rate(server, name), 400)


def test_a_key_that_needs_tokens_needs_the_answers_own(agent: Agent, named: Trace):
    from rl.models import ApiKey

    page = {"kind": ApiKey.Kind.PUBLISHABLE, "allowed_origins": ["https://shop.example"], "needs_tokens": True}
    caller = Caller(ApiKey.create(name="page", **page)[1], origin="https://shop.example")
    assert_problem(rate(caller, NAME), 403)


def rate(caller: Caller, name: Any) -> Any:
    return caller.post(URL, {"trace": name, "rater": "anna", "scale": "thumb", "value": 1})
