"""Answers of the gateway that are still on their way into the database."""

import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rl.models import Agent, Feedback, Trace
from rl.serving.gateway import pending
from tests.collect.otlp.make_spans import NOON, SECOND, body, chat, span
from tests.serving.gateway.test_pending import document
from tests.web.api.conftest import Caller, assert_problem, key_for
from tests.web.api.test_otlp import accepted, send

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting(agent: Agent, data_dir: Path) -> str:
    trace_id = uuid.uuid4()
    pending.write(trace_id, document(agent))
    return str(trace_id)


def rating(trace_id: str) -> dict:
    return {"trace": trace_id, "rater": "anna", "scale": "thumb", "value": 1}


def test_an_answer_can_be_rated_at_once(shop: Caller, waiting: str):
    assert shop.post("/api/v1/feedback/", rating(waiting)).status_code == 201
    assert str(Feedback.objects.get().trace_id) == waiting


def test_a_key_of_another_agent_cannot_rate_it(waiting: str):
    other = Caller(key_for(Agent.objects.create(name="other")))
    assert_problem(other.post("/api/v1/feedback/", rating(waiting)), 404)


def test_what_is_neither_stored_nor_waiting_is_not_found(server: Caller, waiting: str):
    assert_problem(server.post("/api/v1/feedback/", rating(str(uuid.uuid4()))), 404)
    assert Trace.objects.count() == 0


def test_it_can_be_rated_as_an_entry_too(server: Caller, waiting: str):
    sent = {"entry_id": waiting, "device_id": "d", "rating": "up"}
    assert server.post("/api/v1/ratings/", sent).status_code == 201
    sent = {"device_id": "e", "ratings": {waiting: {"rating": "down"}, "../x": {"rating": "up"}}}
    synced = server.post("/api/v1/ratings/sync/", sent).json()
    assert (synced["created"], [one["entry_id"] for one in synced["rejected"]]) == (1, ["../x"])


@pytest.mark.database
@pytest.mark.parametrize("has_id", [True, False], ids=["with its id", "without an id"])
def test_opentelemetry_tells_more_of_the_same_answer_and_makes_no_second_one(
    secret_key: str, agent: Agent, data_dir, has_id: bool
):
    asked = [{"role": "user", "content": "Where is my parcel?"}]
    trace_id, at = uuid.uuid4(), datetime.fromtimestamp(NOON // SECOND, UTC)
    pending.write(trace_id, document(agent, prompt=asked, response="In Bonn.", occurred_at=at.isoformat()))
    told = {"gen_ai__response__id": str(trace_id)} if has_id else {}
    accepted(send(secret_key, body(span(chat(asked[0]["content"], **told)))))
    trace = Trace.objects.get()
    assert (trace.pk, trace.source) == (trace_id, "gateway")
    assert trace.details["otel"]["kind"] == "model"
    assert trace.details["complete"] is True


def test_it_can_be_looked_at_at_once(server: Caller, waiting: str):
    assert server.get(f"/api/v1/traces/{waiting}/").json()["id"] == waiting


def test_it_is_found_by_its_id_at_once(server: Caller, waiting: str):
    (found,) = server.get(f"/api/v1/traces/?external_id={waiting}").json()["results"]
    assert found["id"] == waiting


def test_its_page_is_there_at_once(admin_client, waiting: str):
    assert admin_client.get(f"/traces/{waiting}/").status_code == 200
