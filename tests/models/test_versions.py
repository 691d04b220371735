import itertools

import pytest
from django.db import IntegrityError, transaction

from rl.models import Agent, Deployment, ModelVersion

pytestmark = pytest.mark.django_db
Stage = ModelVersion.Stage

ARROWS = {
    (Stage.CANDIDATE, Stage.EVALUATED),
    (Stage.CANDIDATE, Stage.REJECTED),
    (Stage.EVALUATED, Stage.EXPORTED),
    (Stage.EVALUATED, Stage.REJECTED),
    (Stage.EXPORTED, Stage.DEPLOYED),
    (Stage.EXPORTED, Stage.REJECTED),
    (Stage.DEPLOYED, Stage.RETIRED),
    (Stage.RETIRED, Stage.DEPLOYED),
}


def make_version(agent: Agent, name: str = "v15", **fields) -> ModelVersion:
    return ModelVersion.objects.create(agent=agent, name=name, base_model="tiny", feedback_count=15, **fields)


@pytest.mark.parametrize(("start", "end"), list(itertools.product(Stage, Stage)))
def test_a_stage_moves_along_its_arrows_only(agent, start, end):
    version = make_version(agent, stage=start)
    assert version.move(end) is ((start, end) in ARROWS)
    assert version.stage == (end if (start, end) in ARROWS else start)


def test_a_name_is_taken_once_per_agent_whatever_its_case(agent):
    make_version(agent, "v15")
    with pytest.raises(IntegrityError), transaction.atomic():
        make_version(agent, "V15")


def test_two_agents_may_have_the_same_version_name(agent):
    make_version(agent)
    assert make_version(Agent.objects.create(name="other")).name == "v15"


def test_an_agent_without_a_champion_uses_its_base_model(agent):
    assert Deployment.champion(agent) is None


def test_promotion_keeps_the_last_champion_as_previous(agent):
    first, second, third = (make_version(agent, name) for name in ("v1", "v2", "v3"))
    for version in (first, second, third):
        Deployment.promote(version)
    assert Deployment.champion(agent) == third
    assert agent.deployments.get(alias="previous").version == second
    assert agent.deployments.filter(alias="").get().version == first


@pytest.mark.database
def test_promoting_the_champion_again_changes_nothing(agent):
    first, second = make_version(agent, "v1"), make_version(agent, "v2")
    Deployment.promote(first)
    Deployment.promote(second)
    Deployment.promote(second)
    assert agent.deployments.get(alias="previous").version == first
    assert agent.deployments.count() == 2


def test_an_agent_has_one_champion(agent):
    Deployment.objects.create(agent=agent, version=make_version(agent), alias="champion")
    with pytest.raises(IntegrityError), transaction.atomic():
        Deployment.objects.create(agent=agent, version=make_version(agent, "v16"), alias="champion")


@pytest.mark.database
def test_promoting_a_version_that_a_server_has_marks_that_deployment(agent):
    version = make_version(agent)
    served = Deployment.objects.create(agent=agent, version=version, target="ollama", model_name="chat")
    Deployment.promote(version)
    assert agent.deployments.get() == served
    assert Deployment.champion(agent) == version
