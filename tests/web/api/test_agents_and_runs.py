"""Which agents, experiments and runs there are, and a run that a program starts."""

import pytest

from rl.collect.feedback import write
from rl.models import Agent, Arm, Deployment, Experiment, ModelVersion, Trace, TrainingRun
from tests.conftest import make_trace
from tests.web.api.conftest import Caller, assert_problem, key_for

pytestmark = pytest.mark.django_db
AGENTS, EXPERIMENTS, RUNS = "/api/v1/agents/", "/api/v1/experiments/", "/api/v1/runs/"


def rate(trace: Trace, value: int) -> None:
    write.rate(trace, rater="anna", scale="thumb", value=value, source="test")


@pytest.fixture
def trial(agent: Agent, version: ModelVersion) -> Experiment:
    trial = Experiment.objects.create(agent=agent, name="trial", state="running")
    Arm.objects.create(experiment=trial, is_control=True, requests=7)
    Arm.objects.create(experiment=trial, version=version, best_of=4, weight=0.5)
    return trial


@pytest.fixture
def rated(agent: Agent) -> Agent:
    for number in range(4):
        rate(make_trace(agent, f"question {number // 2}", f"answer {number}"), number % 2)
    return agent


def test_an_agent_says_what_it_uses(server: Caller, agent: Agent, other_agent: Agent, version: ModelVersion):
    Deployment.objects.create(agent=agent, version=version, target="none", alias="champion")
    listed = server.get(AGENTS).json()["results"]
    assert [(row["name"], row["in_use"]) for row in listed] == [("billing", "base"), ("support-chat", "v25")]
    assert server.get(f"{AGENTS}Support-Chat/").json() == listed[1]


def test_a_key_of_an_agent_sees_that_agent_and_its_experiments(agent: Agent, other_agent: Agent, trial: Experiment):
    theirs, ours = Caller(key_for(other_agent)), Caller(key_for(agent))
    assert [row["name"] for row in theirs.get(AGENTS).json()["results"]] == ["billing"]
    assert_problem(theirs.get(f"{AGENTS}support-chat/"), 404)
    assert theirs.get(EXPERIMENTS).json()["results"] == []
    assert_problem(theirs.get(f"{EXPERIMENTS}{trial.pk}/"), 404)
    assert [row["name"] for row in ours.get(EXPERIMENTS, state="running").json()["results"]] == ["trial"]
    assert ours.get(EXPERIMENTS, state="draft").json()["results"] == []
    assert_problem(ours.get(EXPERIMENTS, state="half"), 400, "state")


def test_an_experiment_has_its_arms(server: Caller, trial: Experiment):
    arms = server.get(f"{EXPERIMENTS}{trial.pk}/").json()["arms"]
    assert [(arm["name"], arm["is_control"], arm["weight"], arm["requests"]) for arm in arms] == [
        ("base", True, 1.0, 7),
        ("v25@4", False, 0.5, 0),
    ]


def test_lists_cost_the_same_however_many_rows_there_are(
    server: Caller, agent: Agent, version: ModelVersion, django_assert_max_num_queries
):
    for number in range(6):
        trial = Experiment.objects.create(agent=agent, name=f"trial {number}")
        Arm.objects.create(experiment=trial, version=version)
        Agent.objects.create(name=f"agent-{number}")
        TrainingRun.objects.create(agent=agent, method="dpo", state="failed")
    for url in (AGENTS, EXPERIMENTS, RUNS):
        with django_assert_max_num_queries(7):
            assert len(server.get(url).json()["results"]) >= 6


def test_runs_are_listed_by_agent_and_state(server: Caller, agent: Agent, other_agent: Agent):
    for of, state in ((agent, "failed"), (agent, "queued"), (other_agent, "failed")):
        TrainingRun.objects.create(agent=of, method="dpo", state=state)
    assert len(server.get(RUNS).json()["results"]) == 3
    asked = server.get(RUNS, agent="support-chat", state="failed").json()["results"]
    assert [(row["agent"], row["state"]) for row in asked] == [("support-chat", "failed")]


def test_a_program_starts_a_run(server: Caller, rated: Agent):
    answer = server.post(RUNS, {"agent": "support-chat", "method": "mpo"})
    assert answer.status_code == 202, answer.content
    run = TrainingRun.objects.get()
    assert (answer.json()["id"], answer.json()["state"], run.method, run.trigger) == (run.pk, "queued", "mpo", "manual")
    assert_problem(server.post(RUNS, {"agent": "support-chat"}), 409, "has run")


def test_a_program_says_how_long_a_run_may_take(server: Caller, rated: Agent):
    rated.preset = "cpu"
    rated.save()
    answer = server.post(RUNS, {"agent": "support-chat", "effort": "minutes"})
    assert answer.status_code == 202, answer.content
    assert "learning_rate" in TrainingRun.objects.get().config["automatic"]


@pytest.mark.parametrize(
    ("wrong", "status", "words"),
    [
        ({"agent": "support-chat", "method": "magic"}, 400, "method"),
        ({"agent": "support-chat", "preset": "magic"}, 400, "preset"),
        ({"agent": "support-chat", "effort": "days"}, 400, "effort"),
        ({"agent": "support-chat", "effort": "now", "preset": "cpu"}, 400, "name one of the two"),
        ({"agent": "support-chat", "base_model": "/etc"}, 400, "base_model"),
        ({"agent": "billing"}, 404, "billing"),
        ({"agent": "support-chat"}, 400, "has no answers yet"),
    ],
)
def test_a_run_that_cannot_be_is_refused_and_none_is_made(server: Caller, agent: Agent, wrong, status, words):
    assert_problem(server.post(RUNS, wrong), status, words)
    assert not TrainingRun.objects.exists()


def test_who_may_only_read_starts_none(rated: Agent):
    reader = Caller(key_for(None, scopes=["read"]))
    assert_problem(reader.post(RUNS, {"agent": "support-chat"}), 403, "train")
    assert not TrainingRun.objects.exists()
