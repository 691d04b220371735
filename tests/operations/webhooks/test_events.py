"""Each event is one row for each endpoint that wants it, in the transaction of what it tells of."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from rl.models import Agent, Deployment, TrainingRun, WebhookDelivery
from rl.operations.webhooks import events
from rl.runs import supervisor
from rl.serving import promotion
from tests.admin.records import make_evaluation, make_run, make_training_set, make_version
from tests.operations.webhooks.receiver import SECRET, write_file
from tests.serving.experiments.experimenting import make_experiment

pytestmark = pytest.mark.django_db
S = TrainingRun.State


@pytest.fixture
def told(tmp_path: Path, settings):
    """Two endpoints: one for all, one for the runs of another agent."""
    endpoint = {"url": "https://hooks.example/", "secret": SECRET}
    narrow = {**endpoint, "events": ["run.finished"], "agents": ["other"]}
    settings.WEBHOOKS_FILE = write_file(tmp_path / "webhooks.yaml", ops=endpoint, narrow=narrow)
    return lambda: [(row.endpoint, row.event) for row in WebhookDelivery.objects.order_by("pk")]


def payload() -> dict:
    return WebhookDelivery.objects.latest("pk").payload


@pytest.mark.parametrize("state", [S.SUCCEEDED, S.FAILED, S.CANCELLED])
def test_a_run_that_ends(told, agent: Agent, state: str):
    run = make_run(agent, S.RUNNING)
    assert supervisor.conclude(run, state, "" if state == S.SUCCEEDED else "out of luck")
    assert not supervisor.conclude(run, state)
    assert told() == [("ops", "run.finished")]
    data = payload()["data"]
    assert (data["agent"], data["run"], data["state"]) == ("support-chat", run.pk, state)
    assert data["error"] == (None if state == S.SUCCEEDED else "out of luck")


def test_a_queued_run_that_is_cancelled_has_ended_and_a_running_one_has_not(told, agent: Agent):
    running = make_run(agent, S.RUNNING)
    assert supervisor.cancel(running)
    assert told() == []
    supervisor.conclude(running, S.CANCELLED)
    assert supervisor.cancel(make_run(agent, S.QUEUED))
    assert told() == [("ops", "run.finished")] * 2


def test_only_whom_it_concerns_is_told(told):
    other = Agent.objects.create(name="other")
    supervisor.conclude(make_run(other, S.RUNNING), S.SUCCEEDED)
    assert sorted(told()) == [("narrow", "run.finished"), ("ops", "run.finished")]


def test_promotions_and_going_back(told, agent: Agent, data_dir: Path):
    promotion.promote(agent, make_version(agent, "v15"))
    promotion.promote(agent, agent.versions.get())
    assert told() == [("ops", "deployment.changed")]
    assert payload()["data"] | {"actor": ""} == {
        "agent": "support-chat",
        "action": "promoted",
        "target": "model version support-chat v15",
        "actor": "",
        "in_use": "v15",
        "before": "base",
    }
    promotion.promote(agent, make_version(agent, "v25"))
    promotion.roll_back(agent)
    assert (payload()["data"]["action"], payload()["data"]["in_use"]) == ("rolled_back", "v15")


@pytest.mark.database
def test_a_verdict_of_the_gate(told, agent: Agent):
    evaluation = make_evaluation(make_version(agent), make_training_set(agent))
    events.version_judged(evaluation)
    events.version_judged(evaluation)
    assert told() == [("ops", "version.judged")]
    assert (payload()["data"]["version"], payload()["data"]["verdict"]) == ("v40", "promote")


def test_an_experiment_that_a_person_stops(told, client: Client, bob: User, agent: Agent, data_dir: Path):
    experiment = make_experiment(agent)
    client.force_login(bob)
    client.post(f"/experiments/{experiment.pk}/", {"action": "stop"})
    assert told() == [("ops", "experiment.decided")]
    assert payload()["data"]["verdict"] == "stopped"
    assert "bob stopped it" in payload()["data"]["reason"]


def test_an_experiment_that_waits_for_a_person_is_told_once(told, agent: Agent):
    experiment = make_experiment(agent)
    events.experiment_waits(experiment, "promote", "v2 is better.")
    events.experiment_waits(experiment, "promote", "v2 is better, by more.")
    assert told() == [("ops", "experiment.waits")]
    assert payload()["data"] == {
        "agent": "support-chat",
        "experiment": experiment.name,
        "verdict": "promote",
        "reason": "v2 is better.",
    }


def test_what_is_taken_back_is_not_told(told, agent: Agent, data_dir: Path):
    version = make_version(agent)
    with transaction.atomic():
        promotion.promote(agent, version)
        transaction.set_rollback(True)
    assert (told(), Deployment.champion(agent)) == ([], None)


def test_a_file_that_cannot_be_read_stops_nothing(agent: Agent, settings, caplog):
    settings.WEBHOOKS_FILE = "/no/such/file"
    assert supervisor.conclude(make_run(agent, S.RUNNING), S.SUCCEEDED)
    assert "webhooks: no message is sent: /no/such/file" in caplog.text


def test_messages_carry_type_time_and_data():
    found = events.message("run.finished", "a", {"run": 1})
    assert list(found) == ["type", "timestamp", "data"]
    assert found["timestamp"].endswith("+00:00")
