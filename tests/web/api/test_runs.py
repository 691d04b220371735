"""How far a run is, and an end to it, over the API."""

from __future__ import annotations

import pytest

from rl.models import Agent, TrainingRun
from tests.web.api.conftest import Caller, assert_problem, key_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(agent: Agent) -> TrainingRun:
    return TrainingRun.objects.create(agent=agent, method="dpo")


def test_a_run_that_waits_is_cancelled_at_once(server: Caller, run: TrainingRun):
    answer = server.post(f"/api/v1/runs/{run.pk}/cancel/")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    assert server.get(f"/api/v1/runs/{run.pk}/").json()["state"] == "cancelled"


def test_one_at_work_is_asked_to_stop(server: Caller, run: TrainingRun):
    assert run.claim()
    answer = server.post(f"/api/v1/runs/{run.pk}/cancel/")
    assert answer.status_code == 202
    assert {name: answer.json()[name] for name in ("agent", "method", "state", "cancel_requested", "version")} == {
        "agent": "support-chat",
        "method": "dpo",
        "state": "running",
        "cancel_requested": True,
        "version": None,
    }


@pytest.mark.database
def test_one_that_is_over_stays_as_it_is(server: Caller, run: TrainingRun):
    TrainingRun.objects.update(state=TrainingRun.State.SUCCEEDED)
    assert_problem(server.post(f"/api/v1/runs/{run.pk}/cancel/"), 409, f"run {run.pk} is over already: succeeded")


@pytest.mark.database
def test_runs_of_other_agents_do_not_exist_for_a_key(run: TrainingRun, other_agent: Agent):
    stranger = Caller(key_for(other_agent))
    assert_problem(stranger.get(f"/api/v1/runs/{run.pk}/"), 404)
    assert_problem(stranger.post(f"/api/v1/runs/{run.pk}/cancel/"), 404)
    run.refresh_from_db()
    assert run.state == TrainingRun.State.QUEUED
