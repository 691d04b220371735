"""Every field that a body of feedback may have is stored, given back, and part of what an event says."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from rl.collect.feedback import write
from rl.models import Agent, Feedback, Trace
from rl.web.api.serializers.traces import FEEDBACK_IN, FeedbackOut
from tests.conftest import make_trace
from tests.web.api.conftest import Caller

URL = "/api/v1/feedback/"
VALUES: dict[str, tuple[Any, Any]] = {
    "scale": ("score", "thumb"),
    "value": (1, 0),
    "choice": ("left", "tie"),
    "text": ("Tomorrow.", "Today."),
    "metric": ("refunds", "visits"),
    "tags": (["slow"], ["clear"]),
    "notes": ("hm", "well"),
}
"""Two values of each field that says something; a new field needs two here."""
ABOUT = {"kind", "trace", "other_trace", "agent", "rater", "rated_at", "token", "other_token"}
"""Says what the event is about, by whom and when, and that he may."""
CASES = [(kind, name) for kind, serializer in FEEDBACK_IN.items() for name in serializer().fields if name not in ABOUT]
pytestmark = pytest.mark.django_db


@pytest.fixture
def bodies(agent: Agent) -> dict[str, dict[str, Any]]:
    """One of each kind with every field but ``rated_at``."""
    left, right = (str(make_trace(agent, response=text).pk) for text in ("Soon.", "It is on its way."))
    known = {"trace": left, "other_trace": right, "rater": "anna", **{name: one for name, (one, _) in VALUES.items()}}
    return {
        kind: {"kind": kind, **{name: known[name] for name in serializer().fields if name in known}}
        for kind, serializer in FEEDBACK_IN.items()
    }


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_it_has_two_values_here(kind: str, name: str):
    assert name in VALUES


@pytest.mark.parametrize("kind", FEEDBACK_IN)
def test_what_a_body_says_comes_back(kind: str, bodies, server: Caller):
    answer = server.post(URL, bodies[kind])
    assert answer.status_code == 201
    assert {name: answer.json()[name] for name in bodies[kind]} == bodies[kind]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_an_event_that_differs_in_one_field_says_something_new(kind: str, name: str, bodies, server: Caller):
    first = server.post(URL, bodies[kind]).json()
    again = server.post(URL, bodies[kind]).json()
    other = server.post(URL, {**bodies[kind], name: VALUES[name][1]}).json()
    assert again["id"] == first["id"]
    assert other["id"] != first["id"]


def events(trace: Trace) -> list[Feedback]:
    """One of each kind, a retraction included."""
    other, common = make_trace(trace.agent, response="Another answer."), {"rater": "anna", "source": "test"}
    when = datetime(2026, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2)))
    rated = write.rate(trace, scale="stars", value=4, tags=["late", "é"], notes="why\n", rated_at=when, **common)
    others = [
        write.compare(trace, other, choice="left", **common),
        write.correct(trace, text="It is on its way.", **common),
        write.outcome(trace, metric="sold", value=-1.5, **common),
    ]
    fresh = [rated.event, *(said.event for said in others)]
    assert write.retract(rated.event, rater="anna", source="test")
    return [*fresh, *Feedback.objects.all()]


def test_it_is_what_its_fields_give(trace: Trace):
    document = FeedbackOut()
    slow = super(FeedbackOut, document).to_representation
    for event in events(trace):
        assert document.to_representation(event) == dict(slow(event))
        assert list(document.to_representation(event)) == list(slow(event))
