"""Keys and agents are read again after REFRESH_SECONDS, and no later."""

from __future__ import annotations

import pytest

from rl.models import ApiKey, Feedback, Trace
from rl.serving.gateway.table import REFRESH_SECONDS
from tests.web.api.conftest import Caller, assert_problem
from tests.web.api.test_feedback_post import URL, body

pytestmark = pytest.mark.django_db


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("rl.web.api.known.time.monotonic", lambda: now[0])
    return now


def test_a_revoked_key_is_refused_within_the_bound(server: Caller, trace: Trace, clock: list[float]):
    assert server.post(URL, body(trace)).status_code == 201
    ApiKey.objects.get().revoke()
    clock[0] += REFRESH_SECONDS
    assert_problem(server.post(URL, body(trace, value=0)), 401, "revoked")
    assert Feedback.objects.get().value == 1


def test_a_key_that_is_made_just_now_works_at_once(trace: Trace, clock: list[float]):
    assert_problem(Caller("sk_unknown").post(URL, body(trace)), 401)
    key = ApiKey.create(name="new", kind="secret")[1]
    assert Caller(key).post(URL, body(trace)).status_code == 201


def test_a_renamed_agent_has_its_new_name_within_the_bound(server: Caller, trace: Trace, clock: list[float]):
    server.post(URL, body(trace))
    trace.agent.name = "chat"
    trace.agent.save()
    clock[0] += REFRESH_SECONDS
    assert server.post(URL, body(trace)).json()["agent"] == "chat"


def test_a_key_that_is_deleted_while_it_is_known_rates_nothing(server: Caller, trace: Trace, clock: list[float]):
    server.post(URL, body(trace))
    Feedback.objects.all().delete()
    ApiKey.objects.all().delete()
    clock[0] += REFRESH_SECONDS
    assert_problem(server.post(URL, body(trace)), 401)


def test_no_more_are_remembered_than_there_is_room_for(monkeypatch, clock: list[float]):
    from rl.web.api.known import Known

    monkeypatch.setattr("rl.web.api.known.MOST", 2)
    asked: list[int] = []
    known: Known[int, int] = Known(lambda name: asked.append(name) or name)
    for name in (1, 2, 3, 3, 1):
        assert known.get(name) == name
    assert asked == [1, 2, 3, 1]
