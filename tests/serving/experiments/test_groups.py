"""An experiment whose new version is better on the whole, and worse for some."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rl.collect.groups import Group
from rl.models import Agent, Arm, Deployment, Experiment, Trace
from rl.serving.experiments import lifecycle
from rl.serving.experiments.groups import MOST_COUNTED, GroupTallies
from rl.serving.experiments.looks import look
from rl.serving.experiments.metrics import Observation, observations
from rl.serving.experiments.report import document
from rl.serving.experiments.verdicts import Question
from tests.serving.experiments.experimenting import answers, arms_of, make_experiment, rate

pytestmark = [pytest.mark.usefixtures("data_dir"), pytest.mark.django_db]


@pytest.fixture
def agent(agent: Agent) -> Agent:
    agent.group_by = "language"
    agent.save()
    return agent


def answer(arm: Arm, language: str, users: int, up: int) -> None:
    """As the gateway stores what an app sends."""
    units = [f"{language} {arm.pk} {number}" for number in range(users)]
    rate(answers(arm, units, details={"parameters": {"metadata": {"language": language}}}), up)


def run(agent: Agent, german_up: int, **settings) -> Experiment:
    """200 users an arm thumb up in half of the cases with the base model, in nine of ten of the English with v286."""
    experiment = make_experiment(agent, **settings)
    control, challenger = arms_of(experiment)
    for language, users, up in (("en", 200, 180), ("de", 60, german_up)):
        answer(control, language, users, users // 2)
        answer(challenger, language, users, up)
    return experiment


def test_a_better_version_that_is_worse_for_a_group_waits_for_a_person(agent: Agent):
    experiment = run(agent, german_up=2)
    assert lifecycle.tick() == []
    experiment.refresh_from_db()
    assert (experiment.state, experiment.verdict, Deployment.champion(agent)) == ("running", "", None)
    assert experiment.reason.startswith(
        "Waits for a person. Better on the whole, but worse for language = de: −46.7 points (−82.9 to −10.5), "
        "60 rated users an arm. It is not put in use by itself; a person decides. Without that: v286 is better than base: "
    )
    lifecycle.conclude(experiment, arms_of(experiment)[1], "bob")
    experiment.refresh_from_db()
    assert (experiment.verdict, Deployment.champion(agent).name) == ("promote", "v286")


@pytest.mark.parametrize("change", ["no group is worse", "no key is named"])
def test_a_better_version_is_put_in_use_by_itself_otherwise(agent: Agent, change: str):
    if change == "no key is named":
        Agent.objects.update(group_by="")
    experiment = run(agent, german_up=20 if change == "no group is worse" else 2)
    assert lifecycle.tick() == [experiment]
    assert Deployment.champion(agent).name == "v286"


def test_groups_with_few_users_on_a_side_are_not_looked_at(agent: Agent):
    experiment = run(agent, german_up=30)
    control, challenger = arms_of(experiment)
    answer(control, "fr", 19, 19)
    answer(challenger, "fr", 40, 0)
    assert [(row.group.value, row.worse) for row in look(experiment).groups] == [("en", False), ("de", False)]


def test_it_costs_no_query_more(agent: Agent, django_assert_num_queries):
    experiment = run(agent, german_up=30)
    with django_assert_num_queries(3):
        look(experiment)


@pytest.mark.database
@pytest.mark.parametrize(("metric", "sources"), [("win_rate", {}), ("duel", {"source": "gateway"})])
def test_picks_between_answers_are_grouped_too(agent: Agent, metric: str, sources: dict[str, str]):
    experiment = make_experiment(agent, metric=metric)
    control, challenger = arms_of(experiment)
    details = {"details": {"language": "de"}, **sources}
    theirs = answers(control, ["alice"], **details)
    ours = answers(challenger, ["alice"], model_version=challenger.version, **details)
    rate(theirs, 1, kind="comparison", choice="right", other_trace=ours[0], scale="")
    (seen,) = observations(experiment, metric)
    assert (seen.arm, seen.value, [str(group) for group in seen.groups]) == (challenger.pk, 1.0, ["language = de"])


def test_a_lower_error_is_better_for_groups_too_and_requests_have_none(agent: Agent):
    experiment = run(agent, german_up=2, metric="error_rate")
    assert look(experiment).groups == []


def test_a_key_with_a_value_for_each_user_does_not_fill_the_memory():
    question = Question(names={0: "base", 1: "v2"}, control=0, metric="thumbs_up")
    tallies = GroupTallies(question, keys=2)
    for number in range(MOST_COUNTED + 50):
        named = [("user", str(number)), ("language", "de")]
        tallies.note(Observation(number % 2, number, 1.0, 0, [Group(*names) for names in named]))
    assert len(tallies.tallies) == MOST_COUNTED + 1
    assert [str(row.group) for row in tallies.read()] == ["language = de"]


def test_the_page_and_the_document_show_each_group(agent: Agent, client: Client, bob: User):
    client.force_login(bob)
    experiment = run(agent, german_up=2)
    Trace.objects.filter(details__parameters__metadata__language="de").update(details={"language": "<i>"})
    found = document(look(experiment))
    assert (found["is_held"], found["answer"]) == (True, "Better on the whole, and worse for some")
    assert [(row["group"], row["version"], row["samples"], row["worse"]) for row in found["groups"]] == [
        ("language = en", "v286", 200, False),
        ("language = <i>", "v286", 60, True),
    ]
    text = client.get(f"/experiments/{experiment.pk}/").content.decode()
    assert 'language = &lt;i&gt; <span class="badge bad">worse</span>' in text
    assert '<section class="card verdict warn" aria-labelledby="answer">' in text
