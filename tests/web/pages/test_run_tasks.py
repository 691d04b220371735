"""What the page of a run tells about its episodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.test import Client

from rl.collect.traces.episodes import store_episodes
from rl.models import Agent, TrainingRun
from rl.web.pages.runs import run_episodes
from rl.web.run_lists import HEIGHT, WIDTH
from tests.admin.records import make_run
from tests.collect.made_episodes import trained

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def staff(client: Client, bob) -> Client:
    client.force_login(bob)
    return client


@pytest.fixture
def run(agent: Agent) -> TrainingRun:
    return make_run(agent, TrainingRun.State.RUNNING)


def learn(run: TrainingRun, task_id: str, *successes: bool, split: str = "train") -> None:
    """One episode a step."""
    episodes = (
        replace(trained(task_id, step), split=split, success=success, reward=float(success))
        for step, success in enumerate(successes)
    )
    store_episodes(run.agent, episodes, run)


def page_of(client: Client, run: TrainingRun) -> str:
    return client.get(f"/runs/{run.pk}/").content.decode()


def test_runs_without_episodes_have_no_such_section(staff, run):
    assert 'id="run-success-card" hidden' in page_of(staff, run)
    assert "Task by task" not in page_of(staff, run)


@pytest.mark.database
def test_tasks_are_told_with_their_beginning_and_their_end(staff, run):
    learn(run, "sum", False, False, True, True)
    learn(run, "sort", True, True, True, True, split="eval")
    page = page_of(staff, run)
    assert 'id="run-success-card" hidden' not in page
    for words in ("<td>2 of 4</td><td>0 %</td><td>100 %</td>", "<td>4 of 4</td><td>100 %</td><td>100 %</td>"):
        assert words in page
    assert page.index(">sum<") < page.index(">sort<")
    newest = run.episodes.get(task_id="sum", step=3)
    assert f"/traces/{newest.trace_id}/" in page
    assert "<td>3</td><td>100 % of 1</td><td>100 % of 1</td>" in page


def test_a_hostile_task_is_text(staff, run):
    learn(run, HOSTILE, True)
    assert HOSTILE not in page_of(staff, run)


def test_the_way_of_a_task_is_drawn_within_its_picture(run):
    learn(run, "sum", *[step % 3 == 0 for step in range(40)])
    learn(run, "once", True)
    for task in run_episodes(run)["tasks"]:
        points = [tuple(map(float, point.split(","))) for point in task["spark"].split()]
        assert len(points) > 1
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)


@pytest.mark.database
def test_all_its_episodes_are_one_click_away(staff, run):
    learn(run, "sum", True, False)
    learn(make_run(Agent.objects.create(name="other")), "other-task", True)
    assert f"/admin/rl/episode/?run__id__exact={run.pk}" in page_of(staff, run)
    listed = staff.get("/admin/rl/episode/", {"run__id__exact": run.pk})
    assert {episode.task_id for episode in listed.context["cl"].result_list} == {"sum"}
