import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from rl.models import Agent, Feedback, Trace
from tests.conftest import make_trace
from tests.web.api.conftest import Caller, assert_problem

URL = "/api/v1/feedback/"
pytestmark = [pytest.mark.database, pytest.mark.django_db]


def body(trace: Trace, **fields) -> dict:
    return {"trace": str(trace.pk), "rater": "anna", "scale": "thumb", "value": 1, **fields}


def test_a_rating_is_stored_and_given_back(server: Caller, trace: Trace):
    response = server.post(URL, body(trace, scale="stars", value=4, tags=["slow"], notes="hm"))
    event = Feedback.objects.get()
    assert response.status_code == 201
    answer = response.json()
    assert (answer["id"], answer["trace"], answer["agent"]) == (event.pk, str(trace.pk), trace.agent.name)
    assert (answer["kind"], answer["scale"], answer["value"], answer["normalised"]) == ("rating", "stars", 4, 0.75)
    assert (answer["tags"], answer["notes"], answer["is_current"], answer["source"]) == (["slow"], "hm", True, "api")
    assert event.api_key is not None


def test_a_changed_mind_is_200_and_supersedes(server: Caller, trace: Trace):
    first = server.post(URL, body(trace)).json()
    second = server.post(URL, body(trace, value=0))
    assert second.status_code == 200
    assert (second.json()["value"], second.json()["id"] != first["id"]) == (0, True)
    assert list(Feedback.objects.filter(is_current=True).values_list("value", flat=True)) == [0]
    assert Feedback.objects.count() == 2


def test_a_retry_is_200_and_stores_nothing(server: Caller, trace: Trace):
    first, again = (server.post(URL, body(trace, notes="same")) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert Feedback.objects.count() == 1


def test_an_older_rating_is_answered_with_the_one_that_counts(server: Caller, trace: Trace):
    now = timezone.now()
    server.post(URL, body(trace, rated_at=now.isoformat()))
    late = server.post(URL, body(trace, value=0, rated_at=(now - timedelta(minutes=5)).isoformat()))
    assert (late.status_code, late.json()["value"]) == (200, 1)


def test_true_and_false_are_thumbs(server: Caller, trace: Trace):
    assert server.post(URL, body(trace, value=False)).json()["normalised"] == 0
    assert server.post(URL, body(trace, value=True)).json()["normalised"] == 1


def test_a_server_compares(server: Caller, agent: Agent, trace: Trace):
    right = make_trace(agent, response="It was sent today.")
    sent = {"kind": "comparison", "trace": str(trace.pk), "other_trace": str(right.pk), "choice": "right", "rater": "a"}
    first, again = (server.post(URL, sent) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert (first.json()["choice"], first.json()["other_trace"]) == ("right", str(right.pk))
    assert Feedback.objects.get().choice == "right"


def test_a_server_corrects(server: Caller, trace: Trace):
    sent = {"kind": "correction", "trace": str(trace.pk), "text": "It arrives tomorrow.", "rater": "anna"}
    assert server.post(URL, sent).json()["text"] == "It arrives tomorrow."
    assert_problem(server.post(URL, {**sent, "text": trace.response}), 400, "differ")


def test_a_server_reports_an_outcome(server: Caller, trace: Trace):
    sent = {"kind": "outcome", "trace": str(trace.pk), "metric": "solved_hours", "value": 3.5, "rater": "crm"}
    answer = server.post(URL, sent).json()
    assert (answer["metric"], answer["value"], answer["normalised"]) == ("solved_hours", 3.5, None)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"value": 0.5}, "/value"),
        ({"value": "1"}, "/value"),
        ({"value": None}, "/value"),
        ({"value": []}, "/value"),
        ({"scale": "stars", "value": 6}, "/value"),
        ({"scale": "stars", "value": 2.5}, "/value"),
        ({"scale": "score", "value": 2}, "/value"),
        ({"scale": "smiley"}, "/scale"),
        ({"scale": []}, "/scale"),
        ({"kind": "applause"}, "/kind"),
        ({"kind": ["rating"]}, "/kind"),
        ({"kind": None}, "/kind"),
        ({"kind": "retraction"}, "/kind"),
        ({"trace": 1.7}, "/trace"),
        ({"trace": None}, "/trace"),
        ({"rater": ""}, "/rater"),
        ({"rater": "   "}, "/rater"),
        ({"rater": 5}, "/rater"),
        ({"rater": "x" * 200}, "/rater"),
        ({"tags": "good"}, "/tags"),
        ({"tags": ["x"] * 21}, "/tags"),
        ({"tags": [{}]}, "/tags/0"),
        ({"tags": ["x" * 61]}, "/tags/0"),
        ({"notes": "x" * 4001}, "/notes"),
        ({"rated_at": "now"}, "/rated_at"),
        ({"rated_at": "0001-01-01T00:00:00+14:00"}, "/rated_at"),
        ({"colour": "blue"}, "/colour"),
    ],
)
def test_what_is_wrong_is_pointed_at(server: Caller, trace: Trace, change: dict, pointer: str):
    problem = assert_problem(server.post(URL, body(trace) | change), 400)
    assert pointer in [error["pointer"] for error in problem["errors"]]
    assert not Feedback.objects.exists()


@pytest.mark.parametrize("kind", ["rating", "comparison", "correction", "outcome"])
def test_what_is_missing_is_pointed_at(server: Caller, kind: str):
    problem = assert_problem(server.post(URL, {"kind": kind}), 400)
    assert {"/trace", "/rater"} < {error["pointer"] for error in problem["errors"]}


def test_a_trace_that_is_not_there_is_not_found(server: Caller, shop: Caller, trace: Trace):
    for caller in (server, shop):
        assert_problem(caller.post(URL, body(trace) | {"trace": str(uuid.uuid4())}), 404, "no trace")


def test_a_rating_costs_few_statements(shop: Caller, trace: Trace, django_assert_num_queries):
    shop.post(URL, body(trace, rater="somebody else"))  # reads the key and the agent, and writes when the key was used
    first = 3 if connection.vendor == "postgresql" else 0  # one, in a savepoint because tests are in a transaction
    with django_assert_num_queries(first or 5):  # begin, trace, earlier rating, insert, commit
        assert shop.post(URL, body(trace)).status_code == 201
    with django_assert_num_queries(first + 4):
        assert shop.post(URL, body(trace)).status_code == 200
    with django_assert_num_queries(first + 6):
        assert shop.post(URL, body(trace, value=0)).status_code == 200


def test_a_rating_of_a_trace_whose_reward_is_known_says_that_it_is_not_any_more(server: Caller, trace: Trace):
    Trace.objects.update(reward_pending=False)
    server.post(URL, body(trace))
    assert Trace.objects.get().reward_pending
