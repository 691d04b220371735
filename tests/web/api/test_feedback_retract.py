from __future__ import annotations

import pytest

from rl.collect.feedback import write
from rl.models import Feedback, Trace
from tests.web.api.conftest import Caller, assert_problem

OWN = "/api/v1/feedback/retract/"
pytestmark = pytest.mark.django_db


def rate(trace: Trace, rater: str) -> Feedback:
    return write.rate(trace, rater=rater, scale="thumb", value=1, source="test").event


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
