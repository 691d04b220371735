"""Experiments are drafted in the admin, and started, ended and looked at on their own page."""

from __future__ import annotations

import pytest
from django.test import Client

from rl.models import Agent, Experiment
from rl.serving.experiments import lifecycle
from tests.admin.records import make_version
from tests.serving.experiments.experimenting import arms_of, make_experiment

QUESTION = {
    "name": "v2 against base",
    "metric": "rating",
    "minimum_effect": "0.1",
    "confidence": "0.95",
    "min_samples": "50",
    "max_samples": "",
    "guard_metric": "",
    "guard_margin": "0",
    "ramp": "[]",
    "automatic": "on",
}


@pytest.fixture
def staff(client: Client, bob) -> Client:
    client.force_login(bob)
    return client


def filled(agent: Agent, **changes: object) -> dict[str, object]:
    arms = {
        "arms-TOTAL_FORMS": "2",
        "arms-INITIAL_FORMS": "0",
        "arms-0-version": make_version(agent).pk,
        "arms-0-weight": "1",
        "arms-1-version": "",
        "arms-1-weight": "2",
        "arms-1-is_control": "on",
    }
    return {"agent": agent.pk, **QUESTION, **arms, **changes}


def test_a_draft_is_made_here_and_can_be_started(staff: Client, agent: Agent) -> None:
    assert staff.post("/admin/rl/experiment/add/", filled(agent)).status_code == 302
    experiment = Experiment.objects.get()
    assert (experiment.state, experiment.started_at) == ("draft", None)
    assert sorted(arm.weight for arm in experiment.arms.all()) == [1.0, 2.0]
    lifecycle.start(experiment)
    assert experiment.state == "running"


@pytest.mark.parametrize(
    ("field", "value"), [("metric", "speed"), ("ramp", '[{"hours": 3}]'), ("confidence", "1"), ("min_samples", "1")]
)
def test_wrong_settings_are_refused_beside_their_field(staff: Client, agent: Agent, field: str, value: str) -> None:
    answer = staff.post("/admin/rl/experiment/add/", filled(agent, **{field: value}))
    assert answer.status_code == 200
    assert field in answer.context["adminform"].form.errors
    assert not Experiment.objects.exists()


@pytest.mark.database
def test_the_state_is_not_changed_here(staff: Client, agent: Agent) -> None:
    staff.post("/admin/rl/experiment/add/", filled(agent, state="running"))
    assert Experiment.objects.get().state == "draft"


@pytest.mark.database
def test_of_a_started_experiment_only_its_ending_by_itself_is_changed(staff: Client, agent: Agent) -> None:
    experiment = make_experiment(agent)
    control, _ = arms_of(experiment)
    fields = filled(agent, name="other", minimum_effect="0.5", **{"arms-TOTAL_FORMS": "0"})
    del fields["automatic"]
    assert staff.post(f"/admin/rl/experiment/{experiment.pk}/change/", fields).status_code == 302
    experiment.refresh_from_db()
    assert (experiment.name, experiment.minimum_effect, experiment.automatic) == ("first", 0.1, False)
    assert experiment.arms.count() == 2
    assert control.weight == 1


def test_it_leads_to_the_page_of_the_experiment(staff: Client, agent: Agent) -> None:
    experiment = make_experiment(agent)
    for address in ("/admin/rl/experiment/", f"/admin/rl/experiment/{experiment.pk}/change/"):
        assert f'href="/experiments/{experiment.pk}/"' in staff.get(address).content.decode()
