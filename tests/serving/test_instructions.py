"""An instruction makes a version of what is in use, which the same server answers for."""

import pytest

from rl.base.errors import UsageError
from rl.base.manner import SYSTEM, Manner
from rl.evaluation.subject import DEFAULT, of_version
from rl.models import Agent, AuditEvent, Deployment, ModelVersion, TrainingRun
from rl.serving import overview, promotion
from rl.serving.deploy import deploy
from rl.serving.gateway.chat_request import with_system_prompt
from rl.serving.gateway.routing import Route
from rl.serving.gateway.table import load
from rl.serving.instructions import instruct
from rl.serving.upstreams import upstream_of
from rl.serving.withdrawal import beyond, stop_serving
from tests.admin.records import make_run, make_version

pytestmark = [pytest.mark.database, pytest.mark.django_db]
SHORT, LISTS = "Answer in one short sentence.", "Answer with a list."
ASKED = [{"role": "user", "content": "Why?"}]


def serve(agent: Agent, version: ModelVersion | None = None, **fields) -> Deployment:
    values = {"target": "openai", "url": "http://127.0.0.1:9", "model_name": "m", **fields}
    return Deployment.objects.create(agent=agent, version=version, **values)


def route_to(agent: Agent, version: ModelVersion) -> Route:
    known = load().agents[agent.name]
    return Route(known, known.serving(version.pk))


def test_it_is_the_base_model_told_something_and_nothing_is_in_use_of_it(agent: Agent) -> None:
    row = serve(agent)
    version = instruct(agent, f"  {SHORT}\n")
    assert (version.name, version.stage, version.weights, version.parent) == ("v1", "deployed", None, None)
    assert version.is_worded
    assert Deployment.champion(agent) is None
    assert upstream_of(version.deployments.get()) == upstream_of(row)
    assert [event.action for event in AuditEvent.objects.all()] == ["deployed"]


def test_the_gateway_tells_it_with_every_question(agent: Agent) -> None:
    agent.system_prompt = "You help."
    agent.save()
    serve(agent)
    route = route_to(agent, instruct(agent, SHORT))
    rules = {"role": "system", "content": "You help."}
    assert with_system_prompt(ASKED, ASKED, route) == [rules, {"role": "user", "content": f"Why?\n\n{SHORT}"}]
    route = route_to(agent, instruct(agent, SHORT, SYSTEM))
    assert with_system_prompt(ASKED, ASKED, route) == [{"role": "system", "content": f"You help.\n\n{SHORT}"}, *ASKED]
    assert route.served.learned_at is None  # what was corrected since counts as for the base model


def test_what_is_trained_while_it_is_in_use_learns_under_it(agent: Agent) -> None:
    serve(agent)
    assert agent.training_config("mpo").manner == Manner()
    version = instruct(agent, SHORT)
    promotion.promote(agent, version)
    assert version.manner == agent.training_config("mpo").manner == Manner(instruction=SHORT)
    assert agent.training_config("reward_model").manner == Manner()  # it reads what people read


def test_another_instruction_takes_its_place_on_the_same_weights(agent: Agent) -> None:
    trained = make_version(agent, "v1", instruction=LISTS)
    run = make_run(agent, version=trained)
    TrainingRun.objects.filter(pk=run.pk).update(config={"thinks": True})
    serve(agent, trained, alias="champion")
    first = instruct(agent, SHORT)
    promotion.promote(agent, first)
    second = instruct(agent, "Answer in French.")
    assert [version.weights for version in (first, second)] == [trained, trained]
    assert (second.name, second.parent) == ("v3", first)
    assert second.manner == Manner(True, "Answer in French.")
    assert load().agents[agent.name].serving(second.pk).manner == second.manner


def test_the_same_words_find_the_same_version_also_after_it_was_left(agent: Agent) -> None:
    serve(agent)
    version = instruct(agent, SHORT)
    stop_serving(agent, version)
    version.refresh_from_db()
    assert version.stage == "retired"
    assert instruct(agent, SHORT) == version
    assert agent.versions.count() == 1
    assert upstream_of(version.deployments.get())


def test_a_rollback_takes_it_back_at_once(agent: Agent) -> None:
    serve(agent)
    version = instruct(agent, SHORT)
    promotion.promote(agent, version)
    assert promotion.roll_back(agent, instead_of=version) is None
    assert Deployment.champion(agent) is None
    assert agent.training_config("mpo").manner == Manner()


@pytest.mark.parametrize(("text", "reason"), [(" \n", "say in a sentence"), ("x" * 501, "at most 500 characters")])
def test_words_that_are_none_or_too_many_make_no_version(agent: Agent, text: str, reason: str) -> None:
    serve(agent)
    with pytest.raises(UsageError, match=reason):
        instruct(agent, text)
    assert not agent.versions.exists()


def test_where_nothing_serves_the_weights_no_version_is_left_behind(agent: Agent) -> None:
    with pytest.raises(UsageError, match="nothing serves base of support-chat, which v1 has the weights of"):
        instruct(agent, SHORT)
    assert not agent.versions.exists()


def test_what_is_in_use_is_not_made_again(agent: Agent) -> None:
    serve(agent)
    promotion.promote(agent, instruct(agent, SHORT))
    with pytest.raises(UsageError, match="v1, which is in use, is told this already"):
        instruct(agent, SHORT)


def test_when_its_weights_are_not_served_any_more_it_says_so(agent: Agent) -> None:
    row = serve(agent)
    version = instruct(agent, SHORT)
    row.delete()
    assert route_to(agent, version).served.problem == "nothing serves base of support-chat, whose server it would share"
    assert deploy(agent, version, target="llama_cpp") == version.deployments.get()


def test_weights_that_a_kept_version_shares_are_kept(agent: Agent) -> None:
    agent.keep_versions = 1
    agent.save()
    trained = make_version(agent, "v1")
    serve(agent, trained, alias="champion")
    version = instruct(agent, SHORT)
    promotion.promote(agent, version)
    Deployment.objects.filter(version=trained).update(alias="")
    make_version(agent, "v3", stage="exported")
    assert trained not in beyond(agent)


def test_a_program_that_goes_past_the_gateway_is_told_that_it_misses_the_instruction(agent: Agent) -> None:
    serve(agent)
    promotion.promote(agent, instruct(agent, SHORT))
    with pytest.raises(UsageError, match="v1 is told an instruction, which its server does not know: use the gateway"):
        overview.environment(agent)


@pytest.mark.learn
def test_it_is_measured_as_any_version_with_the_weights_that_it_shares(agent: Agent) -> None:
    agent.base_model = "tiny"
    agent.save()
    serve(agent)
    first = instruct(agent, SHORT)
    contest = of_version(first, DEFAULT, lambda *told: None).contest
    assert contest.current == (contest.base_model, None, Manner())  # what is in use is told nothing
    promotion.promote(agent, first)
    contest = of_version(instruct(agent, LISTS), DEFAULT, lambda *told: None).contest
    assert (contest.weights, contest.manner) == (None, Manner(instruction=LISTS))
    assert contest.current == (contest.base_model, None, Manner(instruction=SHORT))
