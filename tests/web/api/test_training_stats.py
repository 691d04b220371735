import pytest

from rl.collect.feedback.write import rate
from rl.models import Agent, Trace, TrainingRun
from tests.conftest import make_trace
from tests.web.api.conftest import Caller, assert_problem, key_for

URL = "/api/training/stats/"
pytestmark = pytest.mark.django_db


@pytest.mark.database
def test_it_counts_what_there_is_to_learn_from(server: Caller, agent: Agent):
    first = make_trace(agent, "Where?", "Here.", session_id="s1", tokens_in=10, tokens_out=2, cost=0.5)
    make_trace(agent, "When", "Now", session_id="s1", tool_calls=[{"tool_name": "track"}, {"name": "clock"}])
    make_trace(agent, "Why", "So", reasoning_steps=[{"content": "hm"}])
    rate(first, rater="anna", scale="thumb", value=1, source="api")
    answer = server.get(URL, agentType="Support-Chat").json()
    assert (answer["agent"], answer["traces"], answer["ratings"], answer["waiting"]) == ("support-chat", 3, 1, 1)
    assert (answer["total_traces"], answer["unique_sessions"]) == (3, 1)
    assert (answer["labeled_traces"], answer["unlabeled_traces"]) == (1, 2)
    assert answer["newest"] == {
        "traces": 3,
        "traces_with_tool_calls": 1,
        "traces_with_reasoning": 1,
        "unique_tools_used": 2,
        "tools_list": ["clock", "track"],
        "avg_query_length": 4.3,
        "avg_response_length": 3.3,
        "total_tokens_in": 10,
        "total_tokens_out": 2,
        "total_cost": 0.5,
    }


def test_an_agent_without_traces_has_zeros(server: Caller, agent: Agent):
    answer = server.get(URL, agentType=agent.name).json()
    assert (answer["total_traces"], answer["unlabeled_traces"], answer["newest"]["avg_query_length"]) == (0, 0, 0.0)


def test_a_bound_key_need_not_name_its_agent(agent: Agent, other_agent: Agent):
    own = Caller(key_for(agent))
    assert own.get(URL).json()["agent"] == "support-chat"
    assert_problem(own.get(URL, agentType=other_agent.name), 404)


def test_an_unbound_key_must(server: Caller):
    assert_problem(server.get(URL), 400, "agentType")


@pytest.mark.parametrize("name", ["nobody", "a\x00b", "\ud800".encode("utf-8", "surrogatepass"), "x" * 999])
def test_an_agent_that_is_not_there_is_not_found(server: Caller, name: str):
    assert_problem(server.get(URL, agentType=name), 404)


def test_a_parameter_that_is_none_is_refused(server: Caller, agent: Agent):
    assert_problem(server.get(URL, agentType=agent.name, agent="x"), 400, "agentType")


def test_it_asks_a_dozen_things_of_the_database(server: Caller, agent: Agent, django_assert_max_num_queries):
    Trace.objects.bulk_create(
        Trace(agent=agent, prompt=[{"role": "user", "content": "q"}], prompt_key="k", response="a") for _ in range(1200)
    )
    with django_assert_max_num_queries(20):
        answer = server.get(URL, agentType=agent.name).json()
    assert (answer["total_traces"], answer["newest"]["traces"]) == (1200, 1000)


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
