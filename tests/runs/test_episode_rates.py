from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rl.collect.traces.episodes import store_episodes
from rl.models import Agent, TrainingRun
from rl.runs.episode_rates import number_of_tasks, series, success_rates, task_rates
from tests.collect.made_episodes import trained


@pytest.fixture
def run(agent: Agent) -> TrainingRun:
    return TrainingRun.objects.create(agent=agent, method="agent")


def ended(task_id: str, step: int, *successes: bool, split: str = "train") -> list:
    return [
        replace(trained(task_id, step, sample), split=split, success=success, reward=float(success))
        for sample, success in enumerate(successes)
    ]


def test_without_an_episode_there_is_nothing(run):
    assert (success_rates(run), series(run), task_rates(run), number_of_tasks(run)) == ({}, None, [], 0)


def test_the_rate_of_each_step_and_split(agent, run):
    episodes = [
        *ended("a", 0, True, False),
        *ended("b", 0, False, False),
        *ended("a", 2, True, True),
        *ended("c", 0, False, split="eval"),
        *ended("c", 2, True, split="eval"),
        *ended("a", 1, True),
    ]
    store_episodes(agent, episodes, run)
    found = success_rates(run)
    assert [(rate.step, rate.solved, rate.episodes) for rate in found["train"]] == [(0, 1, 4), (1, 1, 1), (2, 2, 2)]
    assert [(rate.step, rate.value) for rate in found["eval"]] == [(0, 0.0), (2, 1.0)]
    assert series(run) == {"step": [0, 1, 2], "train": [0.25, 1.0, 1.0], "eval": [0.0, None, 1.0]}


@pytest.mark.database
def test_what_the_environment_broke_counts_nowhere(agent, run):
    broke = replace(trained("a", 1), reward=None, success=False)
    store_episodes(agent, [broke, *ended("b", 0, True)], run)
    assert series(run) == {"step": [0], "train": [1.0], "eval": [None]}
    assert [task.task_id for task in task_rates(run)] == ["b"]


def test_other_runs_and_episodes_outside_of_training_do_not_count(agent, run):
    other = TrainingRun.objects.create(agent=agent, method="agent", state=TrainingRun.State.FAILED)
    store_episodes(agent, ended("a", 1, True), other)
    store_episodes(agent, ended("a", 1, True, split=""), run)
    store_episodes(agent, ended("a", 1, True))
    assert series(run) is None


def test_many_steps_are_put_together(agent, run):
    store_episodes(agent, [one for step in range(0, 1000, 5) for one in ended("a", step, step >= 500)], run)
    rates = success_rates(run)["train"]
    assert 50 <= len(rates) <= 101
    assert [rate.step for rate in rates] == sorted(rate.step for rate in rates)
    assert sum(rate.episodes for rate in rates) == 200
    assert (rates[0].value, rates[-1].value) == (0.0, 1.0)


@pytest.mark.database
def test_tasks_come_worst_first_with_their_way_and_newest_episode(agent, run):
    store_episodes(
        agent, [*ended("easy", 0, True), *ended("hard", 0, False, False), *ended("held", 0, False, split="eval")], run
    )
    store_episodes(
        agent, [*ended("easy", 9, True), *ended("hard", 9, True, False), *ended("held", 9, True, split="eval")], run
    )
    hard, held, easy = task_rates(run)
    assert (hard.task_id, hard.split, hard.solved, hard.episodes) == ("hard", "train", 1, 4)
    assert (hard.first, hard.last) == (0.0, 0.5)
    assert [rate.step for rate in hard.over_time] == [0, 9]
    assert hard.newest == run.episodes.get(task_id="hard", step=9, sample=1).trace_id
    assert (held.split, held.first, held.last) == ("eval", 0.0, 1.0)
    assert (easy.first, easy.last) == (1.0, 1.0)


def test_only_the_worst_are_shown_and_all_are_counted(agent, run):
    store_episodes(agent, [one for n in range(8) for one in ended(f"t{n}", 0, n > 5)], run)
    assert [task.task_id for task in task_rates(run, most=3)] == ["t0", "t1", "t2"]
    assert number_of_tasks(run) == 8


def test_the_queries_do_not_grow_with_the_episodes(agent, run, django_assert_num_queries):
    store_episodes(agent, ended("a", 0, True), run)
    with CaptureQueriesContext(connection) as few:
        task_rates(run), series(run)
    store_episodes(agent, [one for step in range(30) for n in range(10) for one in ended(f"t{n}", step, True)], run)
    with django_assert_num_queries(len(few)):
        task_rates(run), series(run)
