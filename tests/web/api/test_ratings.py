from __future__ import annotations

import pytest
from django.db import connection

from rl.models import Agent, Feedback, Trace
from rl.web.api.lookups import by_external_id
from tests.web.api.conftest import Caller, assert_problem, entry_of

URL = "/api/v1/ratings/"
RATING = {
    "entry_id": "e00001",
    "device_id": "tablet-7",
    "rating": "up",
    "tags": ["good"],
    "notes": "clear",
    "rated_at": "2026-02-01T12:46:57.957000Z",
}
pytestmark = [pytest.mark.database, pytest.mark.django_db]


def test_a_first_rating_is_created_and_echoed(shop: Caller, entry: Trace):
    response = shop.post(URL, RATING)
    assert response.status_code == 201
    assert response.json() == RATING
    event = Feedback.objects.get()
    assert (event.trace, event.rater, event.value) == (entry, "device:tablet-7", 1.0)
    assert event.source == "command_center"


def test_a_second_rating_of_the_device_updates(shop: Caller, entry: Trace):
    shop.post(URL, RATING)
    response = shop.post(URL, {**RATING, "rating": "down", "rated_at": "2026-02-01T13:00:00Z"})
    assert (response.status_code, response.json()["rating"]) == (200, "down")
    assert Feedback.objects.get(is_current=True).value == 0.0


def test_another_device_creates(shop: Caller, entry: Trace):
    shop.post(URL, RATING)
    assert shop.post(URL, {**RATING, "device_id": "phone"}).status_code == 201


def test_the_latest_wins_in_whatever_order_they_come(shop: Caller, entry: Trace):
    shop.post(URL, RATING)
    late = shop.post(URL, {**RATING, "rating": "down", "rated_at": "2026-02-01T12:00:00Z"})
    assert (late.status_code, late.json()) == (200, RATING)


def test_a_server_may_send_ratings_too(server: Caller, entry: Trace):
    assert server.post(URL, RATING).status_code == 201
    assert Feedback.objects.get().rater == "device:tablet-7"


def test_tags_notes_and_time_may_be_missing_or_null(shop: Caller, entry: Trace):
    bare = {"entry_id": "e00001", "device_id": "a", "rating": "up"}
    assert shop.post(URL, bare).json()["tags"] == []
    nulls = shop.post(URL, {**bare, "device_id": "b", "tags": None, "notes": None, "rated_at": None})
    assert (nulls.status_code, nulls.json()["notes"]) == (201, "")


def test_fields_of_its_own_are_let_pass(shop: Caller, entry: Trace):
    assert shop.post(URL, {**RATING, "scenario": "kpi"}).status_code == 201


def test_an_unknown_entry_is_not_found(shop: Caller, entry: Trace):
    assert_problem(shop.post(URL, {**RATING, "entry_id": "e99999"}), 404, "e99999")


def test_an_entry_of_two_agents_needs_the_agent(shop: Caller, entry: Trace, other_agent: Agent):
    entry_of(other_agent, "e00001")
    assert_problem(shop.post(URL, RATING), 400, "support-chat", "billing")
    assert shop.post(URL, {**RATING, "agent": "Billing"}).status_code == 201
    assert Feedback.objects.get().agent == other_agent


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"rating": "sideways"}, "/rating"),
        ({"rating": None}, "/rating"),
        ({"rating": 1}, "/rating"),
        ({"entry_id": ""}, "/entry_id"),
        ({"entry_id": 1}, "/entry_id"),
        ({"device_id": " "}, "/device_id"),
        ({"device_id": "x" * 194}, "/device_id"),
        ({"tags": ["x" * 61]}, "/tags/0"),
        ({"tags": {}}, "/tags"),
        ({"notes": 1}, "/notes"),
        ({"rated_at": 1}, "/rated_at"),
    ],
)
def test_what_is_wrong_is_pointed_at(shop: Caller, entry: Trace, change: dict, pointer: str):
    problem = assert_problem(shop.post(URL, {**RATING, **change}), 400)
    assert pointer in [error["pointer"] for error in problem["errors"]]


def test_it_costs_seven_queries(shop: Caller, entry: Trace, django_assert_num_queries):
    shop.post(URL, RATING)
    with django_assert_num_queries(7):  # key, entry, begin, earlier rating, insert, reward pending, commit
        shop.post(URL, {**RATING, "device_id": "phone"})


def test_an_entry_is_found_without_reading_all_traces():
    rows = by_external_id(Trace.objects.select_related("agent").order_by(), ["e00001"])
    if connection.vendor == "sqlite":  # PostgreSQL reads a table this small from end to end
        assert "agent_id=? AND external_id=?" in rows.explain()
