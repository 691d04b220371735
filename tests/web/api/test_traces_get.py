import base64
from datetime import timedelta

import pytest
from django.utils import timezone

from rl.collect.feedback import write
from rl.models import Agent, ModelVersion, Trace
from tests.conftest import make_trace
from tests.web.api.conftest import Caller, assert_problem

URL = "/api/v1/traces/"
pytestmark = pytest.mark.django_db


def rate(trace: Trace) -> write.Rated:
    return write.rate(trace, rater="anna", scale="thumb", value=1, source="test")


def ids(response) -> list[str]:
    assert response.status_code == 200, response.content
    return [row["id"] for row in response.json()["results"]]


def test_the_newest_comes_first(server: Caller, agent: Agent):
    traces = [make_trace(agent, f"question {n}") for n in range(3)]
    assert ids(server.get(URL)) == [str(trace.pk) for trace in reversed(traces)]


@pytest.mark.database
def test_pages_follow_one_another_without_gaps_or_repeats(server: Caller, agent: Agent):
    traces = [make_trace(agent, f"question {n}") for n in range(7)]
    Trace.objects.filter(pk__in=[trace.pk for trace in traces[2:5]]).update(created_at=timezone.now())  # a tie
    seen: list[str] = []
    page = server.get(URL, limit=2).json()
    assert page["previous"] is None
    while True:
        seen += [row["id"] for row in page["results"]]
        if not page["next"]:
            break
        page = server.get(page["next"]).json()
    assert sorted(seen) == sorted(str(trace.pk) for trace in traces)
    assert len(server.get(page["previous"]).json()["results"]) == 2


@pytest.mark.parametrize(
    "cursor",
    ["%%%", "é", "cD1ub3RhZGF0ZQ==", base64.b64encode(b"p=0001-01-01T00:00:00+14:00").decode(), "bz0tMQ==", "A" * 5000],
)
def test_a_made_up_cursor_is_not_found(server: Caller, trace: Trace, cursor: str):
    assert_problem(server.get(URL, cursor=cursor), 404, "cursor")


@pytest.mark.database
def test_traces_are_filtered(server: Caller, agent: Agent, other_agent: Agent):
    one = make_trace(agent, "first?", session_id="s1", source="otlp", external_id="x1")
    two = make_trace(other_agent, "second?")
    rate(one)
    hour = timedelta(hours=1)
    Trace.objects.filter(pk=two.pk).update(created_at=timezone.now() - 2 * hour)
    edge = (timezone.now() - hour).isoformat()
    for query, found in [
        ({"agent": "support-chat"}, one),
        ({"agent": "BILLING"}, two),
        ({"source": "otlp"}, one),
        ({"session_id": "s1"}, one),
        ({"external_id": "x1"}, one),
        ({"prompt_key": two.prompt_key}, two),
        ({"rated": "true"}, one),
        ({"rated": "false"}, two),
        ({"created_after": edge}, one),
        ({"created_before": edge}, two),
    ]:
        assert ids(server.get(URL, **query)) == [str(found.pk)], query
    assert ids(server.get(URL, agent="nobody")) == []


def test_a_retracted_rating_does_not_count_as_rated(server: Caller, trace: Trace):
    write.retract(rate(trace).event, rater="anna", source="test")
    assert ids(server.get(URL, rated="true")) == []


@pytest.mark.parametrize(
    "query",
    [
        {"rated": "maybe"},
        {"created_after": "soon"},
        {"created_after": "0001-01-01T00:00:00+14:00"},
        {"created_before": "99999-01-01"},
        {"session_id": "a\x00b"},
        {"agent": "\x00"},
        {"agnet": "support-chat"},
        {"agent": ""},
        {"limit": "all"},
        {"limit": "0"},
        {"limit": "9" * 5000},
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(server: Caller, trace: Trace, query: dict):
    problem = assert_problem(server.get(URL, **query), 400)
    assert [error["pointer"] for error in problem["errors"]] == [f"/{name}" for name in query]


def test_a_longer_list_needs_no_more_queries(
    server: Caller, agent: Agent, version: ModelVersion, django_assert_num_queries
):
    server.get(URL)
    for _ in range(2):
        for _ in range(10):
            rate(make_trace(agent, model_version=version))
        with django_assert_num_queries(3):  # key, sizes, page
            server.get(URL)


def test_one_trace_comes_with_its_feedback(server: Caller, trace: Trace, django_assert_num_queries):
    for value in (1, 0, 1):
        write.rate(trace, rater="anna", scale="thumb", value=value, source="test")
    write.correct(trace, text="Better.", rater="ben", source="test")
    server.get(URL)
    with django_assert_num_queries(5):  # key, trace, sizes, feedback with its agent, their number
        answer = server.get(f"{URL}{trace.pk}/").json()
    assert answer["response"] == "On its way."
    assert [event["kind"] for event in answer["feedback"]] == ["correction", "rating", "rating", "rating"]
    assert [event["is_current"] for event in answer["feedback"]] == [True, True, False, False]


def test_a_trace_that_is_not_there_is_not_found(server: Caller, trace: Trace):
    assert_problem(server.get(f"{URL}{'0' * 8}-0000-4000-8000-{'0' * 12}/"), 404)
    assert_problem(server.get(f"{URL}17/"), 404)


def test_an_answer_of_the_gateway_is_read_by_the_id_that_its_client_has(server: Caller, trace: Trace):
    for name in (f"resp_{trace.pk.hex}", f"msg_{trace.pk.hex}", f"chatcmpl-{trace.pk}", f"cmpl-{trace.pk}"):
        assert server.get(f"{URL}{name}/").json()["id"] == str(trace.pk)


@pytest.mark.parametrize("name", ["resp_1", "resp_" + "g" * 32, "resp_" + "A" * 32, "-" * 36, "é" * 36])
def test_what_no_answer_has_as_its_id_is_not_found(server: Caller, trace: Trace, name: str):
    assert_problem(server.get(f"{URL}{name}/"), 404)


def test_a_page_names_its_neighbours_in_a_header_too(server: Caller, agent: Agent):
    for number in range(3):
        make_trace(agent, f"question {number}")
    first = server.get("/api/v1/traces/", limit=2)
    assert first["Link"] == f'<{first.json()["next"]}>; rel="next"'
    last = server.get(first.json()["next"])
    assert last["Link"] == f'<{last.json()["previous"]}>; rel="prev"'
    assert "Link" not in server.get("/api/v1/traces/", limit=3)


def test_what_has_not_changed_is_not_sent_again(server: Caller, agent: Agent):
    make_trace(agent)
    first = server.get("/api/v1/traces/")
    headers = {"if-none-match": first["ETag"]}
    again = server.client.get("/api/v1/traces/", headers=headers)
    assert (again.status_code, again.content) == (304, b"")
    make_trace(agent)
    assert server.client.get("/api/v1/traces/", headers=headers).status_code == 200
