from __future__ import annotations

import pytest
from django.utils import timezone

from rl.models import Agent, ApiKey, Arm, Deployment, Experiment, ModelVersion
from rl.serving.gateway.snapshot import load

pytestmark = pytest.mark.django_db
URL = "http://models.example"


def deployed(agent: Agent, name: str, **fields) -> ModelVersion:
    version = ModelVersion.objects.create(agent=agent, name=name, base_model="tiny", feedback_count=1)
    Deployment.objects.create(agent=agent, version=version, **{"target": "openai", "url": URL, **fields})
    return version


def test_it_knows_what_answers_and_why_the_rest_does_not(agent: Agent):
    deployed(agent, "v1", model_name="m1", alias="champion")
    deployed(agent, "v2", target="none", url="")
    deployed(agent, "v3", target="ollama", url="")
    found = {one.version: one for one in load().agents["support-chat"].deployed}
    assert (found["v1"].upstream.base_url, found["v1"].upstream.model) == (f"{URL}/v1", "m1")
    assert (found["v1"].alias, found["v1"].knows_system_prompt) == ("champion", False)
    assert (found["v2"].upstream, "not served" in found["v2"].problem) == (None, True)
    assert found["v3"].knows_system_prompt


@pytest.mark.database
def test_it_knows_the_running_experiment_without_its_stopped_arms(agent: Agent):
    Experiment.objects.create(agent=agent, name="old", state="stopped")
    trial = Experiment.objects.create(agent=agent, name="new", state="running", started_at=timezone.now())
    for number, stopped in enumerate((False, True, False)):
        version = deployed(agent, f"v{number}")
        Arm.objects.create(experiment=trial, version=version, is_stopped=stopped, is_control=not number, weight=number)
    base = Arm.objects.create(experiment=trial)
    split = load().agents["support-chat"].split
    assert split.experiment_id == trial.pk
    assert [(side.version, side.weight, side.is_control) for side in split.sides] == [
        ("v0", 0.0, True),
        ("v2", 2.0, False),
        ("base", 1.0, False),
    ]
    assert split.sides[-1].arm_id == base.pk


@pytest.mark.database
def test_it_knows_keys_that_were_neither_revoked_nor_expired(agent: Agent):
    row, key = ApiKey.create(name="a", kind="secret", agent=agent)
    gone, _ = ApiKey.create(name="b", kind="secret")
    gone.revoke()
    ApiKey.create(name="c", kind="secret")
    ApiKey.objects.filter(name="c").update(expires_at=timezone.now())
    (known,) = load().keys.items()
    assert known[0] == ApiKey.digest_of(key)
    assert (known[1].id, known[1].is_secret, known[1].agent_id) == (row.pk, True, agent.pk)
    assert (known[1].scopes, known[1].expires_at) == ({"ingest", "read"}, None)


def test_it_reads_everything_with_a_handful_of_queries(agent: Agent, django_assert_max_num_queries):
    for number in range(5):
        deployed(Agent.objects.create(name=f"a{number}"), "v1")
    with django_assert_max_num_queries(5):
        load()
