"""Thumbs of the production system."""

import pytest

from rl.models import Agent, Feedback, Trace
from tests.from_systems.command_center.pages import Page
from tests.web.api.conftest import key_for

pytestmark = pytest.mark.django_db
PATH = "/api/layer2/feedback/"
OK = {"status": "ok", "updated": True}


def test_a_thumb_on_an_answer_is_its_rating(page: Page, trace: Trace):
    answer = page.post(PATH, {"query_id": str(trace.pk), "rating": "down"})
    assert (answer.status_code, answer.json()) == (200, OK)
    event = Feedback.objects.get()
    assert (event.trace, event.rater, event.value) == (trace, "device:", 0.0)
    assert page.get().json()[0]["entry_id"] == str(trace.pk)


def test_an_answer_is_known_by_the_id_that_its_own_system_gave_it(page: Page, entry: Trace):
    assert page.post(PATH, {"query_id": "e00001", "rating": "up"}).json() == OK
    assert Feedback.objects.get().trace == entry


@pytest.mark.database
def test_a_correction_is_a_note_and_interactions_are_counted(page: Page, trace: Trace):
    clicks = [{"widget_index": i, "action": "expand", "duration_ms": 40, "timestamp": i} for i in range(3)]
    body = {"query_id": str(trace.pk), "rating": "up", "correction": "show the trend", "interactions": clicks}
    for _ in range(2):
        assert page.post(PATH, body).json() == OK
    rating, outcome = Feedback.objects.order_by("id")
    assert (rating.kind, rating.notes) == ("rating", "show the trend")
    assert (outcome.metric, outcome.raw_value) == ("interaction:expand", 3.0)


@pytest.mark.parametrize("query_id", ["9d2e0c0e-3c4f-4d1f-8a53-9a4d7d2f0c11", "no-uuid"])
def test_an_unknown_answer_is_not_found(page: Page, query_id: str):
    answer = page.post(PATH, {"query_id": query_id, "rating": "up"})
    assert (answer.status_code, answer.json()) == (404, {"status": "not_found", "updated": False})


@pytest.mark.parametrize(
    "wrong",
    [{"query_id": ""}, {"rating": "meh"}, {"correction": "x" * 501}, {"interactions": [{"action": "a"}] * 51}],
)
def test_a_bad_body_is_one_error(page: Page, trace: Trace, wrong):
    answer = page.post(PATH, {"query_id": str(trace.pk), "rating": "up", **wrong})
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert not Feedback.objects.exists()


@pytest.mark.database
def test_its_own_key_header_carries_a_key_of_ratchet(agent: Agent, trace: Trace):
    body = {"query_id": str(trace.pk), "rating": "up"}
    assert Page("", **{"x-feedback-key": "sk_wrong"}).post(PATH, body).status_code == 403
    assert Page("").post(PATH, body).status_code == 401
    assert Page("", **{"x-feedback-key": key_for(agent)}).post(PATH, body).json() == OK
    other = Page("", **{"x-feedback-key": key_for(Agent.objects.create(name="billing"))})
    assert other.post(PATH, body).status_code == 404
