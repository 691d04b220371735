"""A valid rating is answered without the view, and as the view would answer it."""

import json

import pytest
from django.http import HttpResponse

from rl.models import Agent, ApiKey, Feedback, Trace
from rl.web.api.feedback import FeedbackList
from tests.conftest import make_trace
from tests.web.api.conftest import SHOP, Caller, assert_problem
from tests.web.api.test_feedback_post import URL, body

BY_THE_VIEW = {"accept": "application/json;q=0.9"}
"""Content is negotiated there."""
pytestmark = pytest.mark.django_db


def post(caller: Caller, given: dict, **headers: str) -> HttpResponse:
    return caller.client.post(URL, json.dumps(given), "application/json", headers=headers)


@pytest.fixture
def seen(monkeypatch) -> list[str]:
    """What got to the view."""
    reached: list[str] = []
    there = FeedbackList.post
    monkeypatch.setattr(FeedbackList, "post", lambda self, request: reached.append("post") or there(self, request))
    return reached


@pytest.mark.parametrize("name", ["server", "shop"])
def test_both_ways_give_the_same_answer(name: str, request, agent: Agent, seen: list[str]):
    caller, traces = request.getfixturevalue(name), [make_trace(agent), make_trace(agent)]
    answers = [
        post(caller, body(trace, notes="ä"), **how) for trace, how in zip(traces, ({}, BY_THE_VIEW), strict=True)
    ]
    assert seen == ["post"]
    changing = {"id", "trace", "rated_at", "created_at"}
    quick, slow = ({k: v for k, v in answer.json().items() if k not in changing} for answer in answers)
    assert quick == slow
    assert [*answers[0].json()] == [*answers[1].json()]
    assert answers[0].status_code == answers[1].status_code == 201
    left_out = {"X-Request-ID", "Allow", "Content-Security-Policy", "Content-Length"}
    headers = [{name: value for name, value in answer.items() if name not in left_out} for answer in answers]
    assert headers[0] == headers[1]
    assert "X-Request-ID" in answers[0]
    assert answers[0].get("Access-Control-Allow-Origin") == (SHOP if name == "shop" else None)


def test_what_is_wrong_after_the_checks_is_a_problem_too(server: Caller, trace: Trace, seen: list[str]):
    gone = {**body(trace), "trace": "00000000-0000-0000-0000-000000000007"}
    quick, slow = post(server, gone), post(server, gone, **BY_THE_VIEW)
    assert assert_problem(quick, 404, "no trace") == assert_problem(slow, 404)
    assert seen == ["post"]


@pytest.mark.parametrize(
    "change", [{"value": 7}, {"kind": "outcome", "metric": "m"}, {"kind": "correction", "text": "better"}, {"tags": 1}]
)
def test_everything_else_is_left_to_the_view(server: Caller, trace: Trace, seen: list[str], change: dict):
    post(server, body(trace) | change)
    assert seen == ["post"]


def test_a_host_that_is_not_ours_is_refused(server: Caller, trace: Trace):
    assert post(server, body(trace), host="evil.example").status_code == 400
    assert not Feedback.objects.exists()


def test_a_key_without_the_scope_rates_nothing(trace: Trace):
    reader = Caller(ApiKey.create(name="reader", kind="secret", scopes=["read"])[1])
    assert_problem(post(reader, body(trace)), 403, "ingest")
    assert not Feedback.objects.exists()
