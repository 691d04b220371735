import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.collect.traces.episodes import store_episodes
from rl.dataset_builder import task_source
from rl.dataset_builder.read.agent_tasks import NEWEST, by_success, census, hardest_first, measured_rates
from rl.dataset_builder.rows.tasks import TaskSource
from rl.environments.settings import EnvironmentSettings
from rl.models import Agent, TrainingRun
from tests.collect.made_episodes import episode, trained

LONG = "t" * 300


@pytest.fixture
def run(agent: Agent) -> TrainingRun:
    return TrainingRun.objects.create(agent=agent, method="agent")


def source(*names: str) -> TaskSource:
    return TaskSource(EnvironmentSettings("code_exec"), [{"task_id": name} for name in names], [{"task_id": "held"}])


def tried(run: TrainingRun, name: str, ends: str, **fields) -> None:
    """``ends``: of one episode a step, ``+`` solved, ``-`` not."""
    made = [
        trained(name, step=step, success=end == "+", reward=float(end == "+"), **fields)
        for step, end in enumerate(ends)
    ]
    store_episodes(run.agent, made, run)


def test_the_rate_is_over_the_newest_episodes(agent, run):
    tried(run, "sum", "+" * NEWEST + "-" * NEWEST)
    tried(run, "sort", "-" * NEWEST + "+" * (NEWEST // 2) + "-" * (NEWEST // 2))
    assert measured_rates(agent, source("sum", "sort", "new")) == {"sum": 0.0, "sort": 0.5}


def test_held_out_episodes_broken_worlds_and_other_environments_do_not_count(agent, run):
    store_episodes(agent, [episode("sum", split="eval"), trained("sum", reward=None, success=False)], run)
    store_episodes(agent, [episode("sum", environment="search")])
    assert measured_rates(agent, source("sum")) == {}
    store_episodes(agent, [episode("sum")])
    assert measured_rates(agent, source("sum")) == {"sum": 1.0}


def test_episodes_of_another_agent_do_not_count(agent, run):
    tried(run, "sum", "+-")
    assert measured_rates(Agent.objects.create(name="other"), source("sum")) == {}


def test_a_task_id_that_was_cut_when_it_was_stored_is_found(agent, run):
    tried(run, LONG, "+-")
    assert measured_rates(agent, source(LONG, LONG + "x")) == {LONG: 0.5}


def test_tasks_come_by_their_rates_and_the_log_is_told(agent, run):
    for name, ends in (("easy", "++"), ("hard", "--"), ("half", "+-"), ("third", "--+")):
        tried(run, name, ends)
    found = by_success(agent, source("easy", "hard", "new", "half", "third"))
    assert [task["task_id"] for task in found.train] == ["third", "half", "new", "hard", "easy"]
    assert found.held_out == [{"task_id": "held"}]
    assert found.remarks == (
        "curriculum: 2 sometimes solved, then 1 never tried, then 1 never solved, then 1 always solved",
    )


@pytest.mark.database
def test_where_nothing_was_measured_the_log_is_told_that(agent):
    found = by_success(agent, source("b", "a"))
    assert [task["task_id"] for task in found.train] == ["b", "a"]
    assert found.remarks == ("no task of support-chat has been measured yet: they come in the order of the file",)


def test_one_query_however_many_tasks(agent, run):
    for name in "abcde":
        tried(run, name, "+-")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        measured_rates(agent, source(*"abcde"))
    assert len(queries) == 1


@pytest.mark.parametrize("curriculum", [True, False])
def test_only_who_asks_for_it_gets_another_order(agent, run, curriculum):
    plain = task_source(agent, EnvironmentSettings("code_exec"))
    last = plain.train[-1]["task_id"]
    tried(run, last, "+-")
    found = task_source(agent, EnvironmentSettings("code_exec"), curriculum=curriculum)
    assert (found.train[0]["task_id"] == last) is curriculum
    assert sorted(task["task_id"] for task in found.train) == sorted(task["task_id"] for task in plain.train)
    assert found.held_out == plain.held_out


def named(names: str) -> list[dict[str, str]]:
    return [{"task_id": name} for name in names]


def ids(found: list) -> str:
    return "".join(task["task_id"] for task in found)


def test_the_hardest_that_are_sometimes_solved_come_first():
    assert ids(hardest_first(named("abc"), {"a": 0.9, "b": 0.1, "c": 0.5})) == "bca"


def test_then_those_never_tried_then_those_never_solved_and_last_those_always_solved():
    rates = {"a": 1.0, "b": 0.0, "d": 0.25}
    assert ids(hardest_first(named("abcd"), rates)) == "dcba"
    assert dict(census(named("abcd"), rates)) == {
        "sometimes solved": 1,
        "never tried": 1,
        "never solved": 1,
        "always solved": 1,
    }


def test_equals_stay_in_the_order_of_the_file():
    assert ids(hardest_first(named("zyx"), {})) == "zyx"
    assert ids(hardest_first(named("dcba"), {"d": 0.5, "c": 0.5, "b": 0.0, "a": 0.0})) == "dcba"
