import threading

import pytest
from django.db import connection

from rl.collect.feedback.write import CHUNK
from rl.models import Agent, Feedback, Trace
from rl.web.api.lookups import by_external_id
from tests.web.api.conftest import Caller, assert_problem, entry_of, run_together

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
SYNC = "/api/v1/ratings/sync/"


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


def sync(caller: Caller, ratings: dict, **fields):
    return caller.post(SYNC, {"ratings": ratings, "device_id": "tablet-7", **fields})


def up(**fields) -> dict:
    return {"rating": "up", "tags": [], "notes": "", "rated_at": "2026-02-01T12:46:57Z", **fields}


@pytest.fixture
def entries(agent: Agent) -> list[Trace]:
    return [entry_of(agent, f"e0000{n}") for n in range(1, 5)]


def test_first_ratings_are_created(shop: Caller, entries: list[Trace]):
    response = sync(shop, {"e00001": up(), "e00002": up(rating="down", tags=["ugly"], notes="no")})
    assert response.status_code == 200
    assert response.json() == {"created": 2, "updated": 0, "total": 2, "rejected": []}
    event = Feedback.objects.get(trace=entries[1])
    assert (event.rater, event.value, event.tags, event.notes) == ("device:tablet-7", 0.0, ["ugly"], "no")


def test_the_same_again_is_updated_and_stores_nothing(shop: Caller, entries: list[Trace]):
    ratings = {"e00001": up(), "e00002": up()}
    sync(shop, ratings)
    again = sync(shop, {**ratings, "e00003": up()}).json()
    assert again == {"created": 1, "updated": 2, "total": 3, "rejected": []}
    assert Feedback.objects.count() == 3


def test_the_latest_wins(shop: Caller, entries: list[Trace]):
    sync(shop, {"e00001": up()})
    sync(shop, {"e00001": up(rating="down", rated_at="2026-01-01T00:00:00Z")})
    assert Feedback.objects.get(is_current=True).value == 1.0
    sync(shop, {"e00001": up(rating="down", rated_at="2026-03-01T00:00:00Z")})
    assert Feedback.objects.get(is_current=True).value == 0.0


def test_nothing_is_lost_in_silence(shop: Caller, entries: list[Trace], other_agent: Agent):
    entry_of(other_agent, "e00004")
    bad = {
        "e99999": up(),
        "e00002": up(rating="sideways"),
        "e00003": "up",
        "e00004": up(),
        "x" * 300: up(),
        "": up(),
    }
    answer = sync(shop, {"e00001": up(), **bad}).json()
    assert (answer["created"], answer["total"]) == (1, 1)
    reasons = {row["entry_id"]: row["reason"] for row in answer["rejected"]}
    assert set(reasons) == set(bad)
    assert "no entry" in reasons["e99999"]
    assert "rating" in reasons["e00002"]
    assert "billing" in reasons["e00004"]


def test_the_agent_may_be_named(shop: Caller, entries: list[Trace], other_agent: Agent):
    entry_of(other_agent, "e00001")
    assert sync(shop, {"e00001": up()}, agent="billing").json()["created"] == 1
    assert Feedback.objects.get().agent == other_agent


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/ratings"),
        ({"ratings": []}, "/ratings"),
        ({"ratings": None}, "/ratings"),
        ({"ratings": {}, "device_id": ""}, "/device_id"),
        ({"ratings": {}, "device_id": ["x"]}, "/device_id"),
    ],
)
def test_what_is_wrong_with_a_sync_is_pointed_at(shop: Caller, body: dict, pointer: str):
    problem = assert_problem(shop.post(SYNC, body), 400)
    assert pointer in [error["pointer"] for error in problem["errors"]]


def test_nothing_to_sync_is_fine(shop: Caller):
    assert sync(shop, {}).json() == {"created": 0, "updated": 0, "total": 0, "rejected": []}


def test_every_chunk_costs_the_same_number_of_queries(shop: Caller, agent: Agent, django_assert_max_num_queries):
    count = 2 * CHUNK + 10
    Trace.objects.bulk_create(
        Trace(agent=agent, prompt=[], prompt_key=str(n), response="r", external_id=f"e{n}") for n in range(count)
    )
    ratings = {f"e{n}": up() for n in range(count)}
    inserts = -(-CHUNK // connection.ops.bulk_batch_size(Feedback._meta.concrete_fields, [None] * CHUNK))
    with django_assert_max_num_queries(2 + 3 * (5 + inserts)):  # entries, begin, earlier, insert(s), traces, commit
        assert sync(shop, ratings).json()["created"] == count
    changed = {entry_id: up(rating="down", rated_at="2026-03-01T00:00:00Z") for entry_id in ratings}
    with django_assert_max_num_queries(1 + 3 * (6 + inserts)):
        assert sync(shop, changed).json()["updated"] == count
    assert Feedback.objects.filter(is_current=True, value=0).count() == count


@pytest.mark.django_db(transaction=True)
def test_a_sync_and_its_retries_may_overlap(shop: Caller, agent: Agent):
    names = [entry_of(agent, f"e{n}").external_id for n in range(60)]
    barrier, totals = threading.Barrier(4), []

    def send() -> None:
        try:
            barrier.wait(timeout=60)
            for turn in range(4):
                order = names if turn % 2 else list(reversed(names))
                rated_at = f"2026-03-0{turn + 1}T00:00:00Z"
                ratings = {name: up(rating="up" if turn % 2 else "down", rated_at=rated_at) for name in order}
                totals.append(sync(shop, ratings).json()["total"])
        finally:
            connection.close()

    run_together(send, 4)
    assert totals == [60] * 16
    assert set(Feedback.objects.filter(is_current=True).values_list("value", flat=True)) == {1.0}
    assert Feedback.objects.filter(is_current=True).count() == 60
