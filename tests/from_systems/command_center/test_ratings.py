"""The rating page's four calls."""

from pathlib import Path
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.collect.importers import command_center
from rl.models import Agent, Feedback, Trace, WaitingRating
from tests.collect.make_command_center import write_files
from tests.from_systems.command_center.pages import DEVICE, PAGE, RATED_AT, Page
from tests.web.api.conftest import SHOP, entry_of, key_for

pytestmark = [pytest.mark.database, pytest.mark.django_db]
BULK = "/api/ratings/bulk/"


def test_a_thumb_is_created_then_updated_and_answered_with_the_whole_row(page: Page, entry: Trace):
    first = page.rate()
    row = first.json()
    assert first.status_code == 201
    number, created_at = UUID(row.pop("id")), row.pop("created_at")
    assert row.pop("updated_at") == created_at
    assert row == {
        "entry_id": "e00001",
        "device_id": DEVICE,
        "rating": "up",
        "tags": ["good-data"],
        "notes": "",
        "rated_at": RATED_AT,
    }
    again = page.rate(rating="down", rated_at="2026-02-01T13:00:00Z")
    assert (again.status_code, again.json()["rating"]) == (200, "down")
    assert (UUID(again.json()["id"]), again.json()["created_at"]) == (number, created_at)
    assert page.get().json() == [again.json()]
    event = Feedback.objects.get(is_current=True)
    assert (event.trace, event.rater, event.value, event.api_key) == (entry, f"device:{DEVICE}", 0.0, None)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite lets one write at a time")
def test_a_thumb_waits_for_its_turn_to_write_once(page: Page, entry: Trace):
    with CaptureQueriesContext(connection) as statements:
        assert page.rate().status_code == 201
    begun = [query["sql"] for query in statements if query["sql"].startswith("SAVEPOINT")]
    assert len(begun) == 1


def test_a_rating_without_a_device_has_a_rater_of_its_own(page: Page, entry: Trace):
    page.rate()
    for body in ({"device_id": ""}, {"device_id": None}):
        assert page.rate(**body).json()["device_id"] == ""
    assert set(Feedback.objects.values_list("rater", flat=True)) == {f"device:{DEVICE}", "device:"}


def test_the_list_is_bare_and_the_newest_come_first(page: Page, entry: Trace):
    page.rate(device_id="old", rated_at="2026-01-01T00:00:00Z")
    page.rate(device_id="new", rated_at="2026-01-02T00:00:00Z")
    page.rate("e00009", device_id="new", rated_at="2026-01-03T00:00:00Z")
    rows = page.get().json()
    assert [(row["entry_id"], row["device_id"]) for row in rows] == [
        ("e00009", "new"),
        ("e00001", "new"),
        ("e00001", "old"),
    ]


def test_a_bulk_counts_what_it_creates_and_updates_and_fills_in_what_is_missing(page: Page, entry: Trace):
    page.rate()
    body = {"ratings": {"e00001": {"rating": "down", "rated_at": "2026-03-01T00:00:00Z"}, "e00002": {}}}
    answer = page.post(BULK, {**body, "device_id": DEVICE})
    assert (answer.status_code, answer.json()) == (200, {"created": 1, "updated": 1, "total": 2})
    waiting = WaitingRating.objects.get()
    assert (waiting.entry_id, waiting.value, waiting.tags, waiting.notes) == ("e00002", 1, [], "")


def test_a_bulk_keeps_what_is_right_beside_what_is_wrong(page: Page, entry: Trace):
    answer = page.post(BULK, {"ratings": {"e00001": {"rating": "up"}, "e2": {"rating": "meh"}, "e3": 5, "": {}}})
    document = answer.json()
    assert (document["created"], document["total"]) == (1, 1)
    assert [item["entry_id"] for item in document["rejected"]] == ["e2", "e3", ""]


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("/api/ratings/", {"rating": "up"}, {"error": "entry_id is required"}),
        ("/api/ratings/", [], {"error": "the body must be a JSON object"}),
        ("/api/ratings/", {"entry_id": "e1", "rating": "up"}, {"rated_at": ["This field is required."]}),
        (BULK, {"ratings": []}, {"error": "ratings must be an object"}),
    ],
)
def test_a_bad_body_is_answered_in_command_centers_form(page: Page, path: str, body, error):
    answer = page.post(path, body)
    assert (answer.status_code, answer.json()) == (400, error)


def test_what_is_not_json_is_an_error_too(page: Page):
    answer = page.client.post("/api/ratings/", "{", content_type="application/json")
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]


# --- entries that are not here yet -------------------------------------------------------------------------------------


def test_a_thumb_on_an_unknown_entry_waits_and_counts_once_the_entry_is_imported(page: Page, tmp_path: Path):
    assert page.rate("e00001").status_code == 201
    assert page.rate("e00001", rating="down", rated_at="2026-02-02T00:00:00Z").status_code == 200
    late = page.rate("e00001", rated_at="2026-01-01T00:00:00Z")
    assert (late.status_code, late.json()["rating"]) == (200, "down")
    assert not Feedback.objects.exists()
    files = write_files(tmp_path, questions=2, seed=1)
    command_center.run(Agent(name="widgets"), files.entries)
    event = Feedback.objects.get(trace__external_id="e00001", rater=f"device:{DEVICE}")
    assert (event.value, event.tags, event.source) == (0.0, ["good-data"], "command_center")
    assert not WaitingRating.objects.exists()
    assert [row["rating"] for row in page.get().json() if row["device_id"] == DEVICE] == ["down"]


def test_a_dry_run_of_the_import_leaves_it_waiting(page: Page, tmp_path: Path, agent: Agent):
    page.rate("e00001")
    command_center.run(agent, write_files(tmp_path, questions=2, seed=1).entries, dry_run=True)
    assert WaitingRating.objects.exists()


def test_an_entry_that_came_another_way_gets_what_waited_with_the_next_thumb(page: Page, agent: Agent):
    page.rate("e00001", device_id="early")
    entry_of(agent, "e00001")
    page.rate("e00001")
    assert Feedback.objects.count() == 2
    assert not WaitingRating.objects.exists()


# --- who may -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["", "http://localhost:3101", "null"])
def test_without_a_key_only_pages_of_an_origin_that_is_switched_on_are_heard(settings, entry: Trace, origin: str):
    settings.COMMAND_CENTER_ORIGINS = {PAGE: ""}
    stranger = Page(origin)
    for answer in (stranger.get(), stranger.rate(), stranger.post(BULK, {"ratings": {}})):
        assert answer.status_code == 401
        assert "COMMAND_CENTER_ORIGINS" in answer.json()["error"]
    assert not Feedback.objects.exists()


def test_by_default_no_origin_is_switched_on(entry: Trace):
    assert Page().rate().status_code == 401


def test_browsers_are_told_which_pages_may_call(page: Page):
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    for path in ("/api/ratings/", BULK, "/api/layer2/feedback/"):
        assert page.client.options(path, headers=asks)["Access-Control-Allow-Origin"] == PAGE
        assert "Access-Control-Allow-Origin" not in Page("http://evil.example").client.options(path, headers=asks)
    assert "Access-Control-Allow-Origin" not in page.client.options("/api/v1/traces/", headers=asks)
    assert page.get()["Access-Control-Allow-Origin"] == PAGE


def test_an_origin_may_be_for_one_agent(settings, agent: Agent, entry: Trace):
    other = entry_of(Agent.objects.create(name="billing"), "e00001")
    settings.COMMAND_CENTER_ORIGINS = {PAGE: "billing"}
    Page().rate()
    assert Feedback.objects.get().trace == other
    settings.COMMAND_CENTER_ORIGINS = {PAGE: agent.name}
    assert Page().get().json() == []
    settings.COMMAND_CENTER_ORIGINS = {PAGE: ""}
    both = Page().rate()
    assert (both.status_code, "several agents have an entry 'e00001'" in both.json()["error"]) == (400, True)
    settings.COMMAND_CENTER_ORIGINS = {PAGE: "nobody"}
    assert Page().rate().status_code == 403


def test_keys_work_too_and_reach_their_agent_only(agent: Agent, entry: Trace):
    stranger = Page("", authorization=f"Bearer {key_for(Agent.objects.create(name='billing'))}")
    assert stranger.rate().status_code == 201
    assert WaitingRating.objects.get().agent.name == "billing"
    own = Page("", authorization=f"Bearer {key_for(agent)}")
    assert own.get().json() == []
    assert own.rate().status_code == 201
    assert len(own.get().json()) == 1
    public = Page(SHOP, authorization=f"Bearer {key_for(agent, 'publishable')}")
    assert (public.rate().status_code, public.get().status_code) == (200, 403)


def test_a_page_is_throttled_by_its_address(page: Page, settings):
    settings.API_REQUESTS_PER_MINUTE = 2
    answers = [page.get() for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert list(answers[2].json()) == ["error"]
    assert 1 <= int(answers[2]["Retry-After"]) <= 60


def test_names_of_people_who_sign_in_are_not_listed(page: Page, entry: Trace):
    Feedback.objects.create(
        agent=entry.agent, trace=entry, kind="rating", rater="user:alice", scale="thumb", raw_value=1, value=1
    )
    assert page.get().json() == []
