"""NDJSON: each line is one feedback, with its own result."""

import json
import uuid

import pytest
from django.http import HttpResponse
from django.test import Client

from rl.collect.feedback.tokens import TokenSubject, sign
from rl.models import Agent, ApiKey, Feedback, Trace
from rl.web.api import feedback
from tests.conftest import make_trace
from tests.web.api.conftest import SHOP, Caller, assert_problem
from tests.web.api.test_feedback_post import URL, body

pytestmark = pytest.mark.django_db
ADDRESS = "/api/v1/feedback/choices/"


def send(caller: Caller, *lines: dict | str) -> HttpResponse:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return caller.raw(URL, text, "application/x-ndjson")


def test_every_line_is_stored_and_named(server: Caller, agent: Agent, trace: Trace):
    right = make_trace(agent, response="It was sent today.")
    common = {"trace": str(trace.pk), "rater": "anna"}
    answer = send(
        server,
        body(trace),
        {"kind": "comparison", "other_trace": str(right.pk), "choice": "right", **common},
        {"kind": "correction", "text": "It arrives tomorrow.", **common},
        {"kind": "outcome", "metric": "solved", "value": 1, **common},
        body(right, rater="ben"),
    )
    assert answer.status_code == 207
    results = answer.json()["results"]
    assert [(one["line"], one["status"]) for one in results] == [(n, 201) for n in range(1, 6)]
    kinds = ["rating", "comparison", "correction", "outcome", "rating"]
    assert [Feedback.objects.get(pk=one["id"]).kind for one in results] == kinds


def test_a_bad_line_is_named_and_keeps_no_other_out(server: Caller, trace: Trace):
    gone = body(trace) | {"trace": str(uuid.uuid4())}
    lines = [
        body(trace, rater="a"),
        "{",
        "",
        body(trace, value=7),
        gone,
        body(trace, rater="user:1"),
        '"\\ud800"',
        "[]",
    ]
    results = send(server, *lines, body(trace, rater="b")).json()["results"]
    assert [(one["line"], one["status"]) for one in results] == [
        (1, 201),
        (2, 400),
        (4, 400),
        (5, 404),
        (6, 400),
        (7, 400),
        (8, 400),
        (9, 201),
    ]
    assert results[2]["problem"]["errors"][0]["pointer"] == "/value"
    assert "no trace" in results[3]["problem"]["detail"]
    assert sorted(Feedback.objects.values_list("rater", flat=True)) == ["a", "b"]


def test_sending_the_lines_again_stores_nothing(server: Caller, trace: Trace):
    lines = [body(trace, rater="a"), body(trace, rater="a"), body(trace, rater="b", value=0)]
    first, again = (send(server, *lines).json()["results"] for _ in range(2))
    assert [one["status"] for one in first] == [201, 200, 201]
    assert [one["status"] for one in again] == [200] * 3
    assert [one["id"] for one in first] == [one["id"] for one in again]
    assert Feedback.objects.count() == 2


def test_a_browser_may_send_ratings_alone(shop: Caller, trace: Trace):
    outcome = {"kind": "outcome", "trace": str(trace.pk), "rater": "x", "metric": "m", "value": 1}
    results = send(shop, body(trace), outcome).json()["results"]
    assert [one["status"] for one in results] == [201, 403]


def test_too_many_lines_and_none_are_refused(server: Caller, trace: Trace, monkeypatch):
    monkeypatch.setattr(feedback, "MOST", 2)
    assert_problem(send(server, *[body(trace)] * 3), 413, "at most 2 lines", "not 3")
    assert_problem(send(server, "", " ", "\r"), 400, "not a single line")
    assert not Feedback.objects.exists()


def test_a_thousand_ratings_take_few_statements(server: Caller, agent: Agent, django_assert_max_num_queries):
    traces = [make_trace(agent, f"question {n}") for n in range(10)]
    lines = [body(traces[n % 10], rater=f"r{n}") for n in range(1000)]
    with django_assert_max_num_queries(60):
        assert {one["status"] for one in send(server, *lines).json()["results"]} == {201}
    assert Feedback.objects.count() == 1000


@pytest.fixture(autouse=True)
def _has_a_set(agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(answer_values=["cards", "<b>cash</b>"])


def ask(key: str, trace: object, **parameters: str):
    return Client(headers={"authorization": f"Bearer {key}", "origin": SHOP}).get(
        ADDRESS, {"trace": trace, **parameters}
    )


def test_a_page_that_may_rate_reads_the_values(publishable_key: str, trace: Trace) -> None:
    answer = ask(publishable_key, trace.pk)
    assert (answer.status_code, answer.json()) == (200, {"values": ["cards", "<b>cash</b>"]})
    assert answer["Access-Control-Allow-Origin"] == SHOP


def test_free_answers_have_none(publishable_key: str, trace: Trace) -> None:
    Agent.objects.update(answer_kind="free")
    assert ask(publishable_key, trace.pk).json() == {"values": []}


def test_of_an_answer_that_is_not_there_or_not_of_its_agent_it_tells_nothing(
    publishable_key: str, trace: Trace
) -> None:
    assert ask(publishable_key, uuid.uuid4()).status_code == 404
    ApiKey.objects.update(agent=Agent.objects.create(name="other"))
    assert ask(publishable_key, trace.pk).status_code == 404


@pytest.mark.parametrize("parameters", [{"trace": "x"}, {"more": "1"}, {"token": 201 * "x"}])
def test_parameters_are_checked(publishable_key: str, trace: Trace, parameters: dict[str, str]) -> None:
    assert ask(publishable_key, parameters.pop("trace", trace.pk), **parameters).status_code == 400


def test_a_key_that_needs_tokens_needs_one_here(agent: Agent, trace: Trace) -> None:
    key = ApiKey.create(name="shop", kind="publishable", allowed_origins=[SHOP], needs_tokens=True)[1]
    assert ask(key, trace.pk).status_code == 403
    assert ask(key, trace.pk, token=sign(TokenSubject(trace.pk, agent.pk, 1))).status_code == 200
