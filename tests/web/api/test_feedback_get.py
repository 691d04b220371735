import pytest

from rl.collect.feedback import write
from rl.models import Agent, Feedback, Trace
from tests.conftest import make_trace
from tests.web.api.conftest import Caller, assert_problem

URL = "/api/v1/feedback/"
pytestmark = pytest.mark.django_db
OWN = "/api/v1/feedback/retract/"


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


def by_id(event: Feedback) -> str:
    return f"/api/v1/feedback/{event.pk}/retract/"


def test_a_device_takes_its_rating_back(shop: Caller, trace: Trace):
    event = rate(trace, "device:anna")
    assert shop.post(OWN, {"trace": str(trace.pk), "rater": "anna"}).json() == {"retracted": True}
    event.refresh_from_db()
    assert event.is_current is False
    assert Feedback.objects.get(kind="retraction").rater == "device:anna"


def test_retracting_again_does_nothing(shop: Caller, trace: Trace):
    rate(trace, "device:anna")
    answers = [shop.post(OWN, {"trace": str(trace.pk), "rater": "anna"}).json()["retracted"] for _ in range(2)]
    assert answers == [True, False]
    assert Feedback.objects.count() == 2


@pytest.mark.parametrize("rater", ["anna", "user:1", "device:ben"])
def test_a_device_cannot_take_back_what_others_said(shop: Caller, trace: Trace, rater: str):
    event = rate(trace, rater)
    assert shop.post(OWN, {"trace": str(trace.pk), "rater": rater}).json() == {"retracted": False}
    event.refresh_from_db()
    assert event.is_current


def test_a_server_retracts_any_event_by_its_id(server: Caller, trace: Trace):
    event = write.correct(trace, text="Better.", rater="ben", source="test").event
    assert [server.post(by_id(event)).json() for _ in range(2)] == [{"retracted": True}, {"retracted": False}]
    assert Feedback.objects.get(kind="retraction").rater == "ben"


def test_a_server_says_who_retracts(server: Caller, trace: Trace):
    server.post(by_id(rate(trace, "ben")), {"rater": "moderator"})
    assert Feedback.objects.get(kind="retraction").rater == "moderator"


def test_a_retraction_cannot_be_retracted(server: Caller, trace: Trace):
    server.post(by_id(rate(trace, "ben")))
    retraction = Feedback.objects.get(kind="retraction")
    assert server.post(by_id(retraction)).json() == {"retracted": False}


def test_what_is_not_there_is_not_found(server: Caller, shop: Caller):
    assert_problem(server.post("/api/v1/feedback/999999/retract/"), 404)
    assert_problem(shop.post(OWN, {"trace": "00000000-0000-4000-8000-000000000000", "rater": "anna"}), 404)


def test_what_is_missing_is_pointed_at(shop: Caller):
    problem = assert_problem(shop.post(OWN), 400)
    assert {error["pointer"] for error in problem["errors"]} == {"/trace", "/rater"}
