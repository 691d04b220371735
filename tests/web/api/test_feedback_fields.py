"""Every field that a body of feedback may have is stored, given back, and part of what an event says."""

from __future__ import annotations

from typing import Any

import pytest

from rl.models import Agent
from rl.web.api.serializers.feedback import FEEDBACK_IN
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
ABOUT = {"kind", "trace", "other_trace", "rater", "rated_at", "token", "other_token"}
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
