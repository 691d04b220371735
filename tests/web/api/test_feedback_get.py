from __future__ import annotations

import pytest

from rl.collect.feedback import write
from rl.models import Agent, Feedback, Trace
from tests.conftest import make_trace
from tests.web.api.conftest import Caller, assert_problem

URL = "/api/v1/feedback/"
pytestmark = pytest.mark.django_db


def rate(trace: Trace, rater: str = "anna", value: float = 1) -> Feedback:
    return write.rate(trace, rater=rater, scale="thumb", value=value, source="test").event


def ids(response) -> list[int]:
    assert response.status_code == 200, response.content
    return [row["id"] for row in response.json()["results"]]


@pytest.mark.database
def test_the_newest_comes_first(server: Caller, trace: Trace):
    events = [rate(trace, rater) for rater in ("anna", "ben", "cleo")]
    assert ids(server.get(URL)) == [event.pk for event in reversed(events)]


@pytest.mark.database
def test_feedback_is_filtered(server: Caller, agent: Agent, other_agent: Agent, trace: Trace):
    old = rate(trace, value=0)
    new = rate(trace, value=1)
    foreign = rate(make_trace(other_agent), "ben")
    correction = write.correct(trace, text="Better.", rater="cleo", source="test").event
    for query, found in [
        ({"agent": "billing"}, [foreign]),
        ({"trace": str(trace.pk)}, [correction, new, old]),
        ({"kind": "correction"}, [correction]),
        ({"rater": "ben"}, [foreign]),
        ({"current": "false"}, [old]),
        ({"current": "true", "kind": "rating"}, [foreign, new]),
    ]:
        assert ids(server.get(URL, **query)) == [event.pk for event in found], query


@pytest.mark.parametrize("query", [{"kind": "applause"}, {"trace": "17"}, {"current": "1"}, {"rater": "\x00"}])
def test_a_filter_that_makes_no_sense_is_refused(server: Caller, query: dict):
    assert_problem(server.get(URL, **query), 400, *query)


def test_a_longer_list_needs_no_more_queries(server: Caller, agent: Agent, django_assert_num_queries):
    server.get(URL)  # reads the key
    for _ in range(2):
        for n in range(10):
            rate(make_trace(agent), f"rater {n}")
        with django_assert_num_queries(2):  # sizes, page
            server.get(URL)


@pytest.mark.database
def test_one_event_is_given(server: Caller, trace: Trace):
    event = rate(trace)
    answer = server.get(f"{URL}{event.pk}/").json()
    assert (answer["id"], answer["rater"], answer["normalised"]) == (event.pk, "anna", 1)


@pytest.mark.parametrize("number", [10**6, 10**30])
def test_an_event_that_is_not_there_is_not_found(server: Caller, number: int):
    assert_problem(server.get(f"{URL}{number}/"), 404)
