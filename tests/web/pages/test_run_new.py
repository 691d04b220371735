"""A new run: what it would do, and the button that queues it."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django_q.models import OrmQ

from rl.collect.feedback.write import rate
from rl.models import Agent, TrainingRun
from tests.admin.records import make_run
from tests.conftest import make_trace

WISH = {"agent": "support-chat", "method": "", "base_model": "", "preset": ""}


@pytest.fixture
def staff(client: Client, bob: User) -> Client:
    client.force_login(bob)
    return client


@pytest.fixture
def rated(agent: Agent, data_dir: Path) -> Agent:
    for number in range(12):
        for value in (0, 1):
            answer = make_trace(agent, f"question {number}", f"answer {number} {value}")
            rate(answer, rater="user:alice", scale="thumb", value=value, source="test")
    return agent


@pytest.mark.parametrize("page", ["/runs/new/", "/runs/plan.json"])
def test_it_takes_the_permission_to_add_runs(client: Client, agent: Agent, page: str) -> None:
    assert client.get(page)["Location"].startswith("/login/")
    viewer = User.objects.create_user("dora", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_trainingrun"))
    client.force_login(viewer)
    assert client.get(page, WISH).status_code == 403
    assert client.post("/runs/new/", WISH).status_code == 403
    assert b'href="/runs/new/"' not in client.get("/runs/").content
    assert not TrainingRun.objects.exists()


def test_the_plan_says_what_becomes_of_the_ratings_and_changes_with_the_choice(staff: Client, rated: Agent) -> None:
    everything, labels = (staff.get("/runs/plan.json", {**WISH, "method": name}).json() for name in ("", "kto"))
    assert 0 < everything["rows"] < labels["rows"] <= 24
    assert [table["title"] for table in everything["tables"]][:2] == ["Data", "Left out"]
    assert ["ratings read", "24"] in everything["tables"][0]["rows"]
    assert everything["active"] == ""
    run = make_run(rated, TrainingRun.State.QUEUED)
    assert staff.get("/runs/plan.json", WISH).json()["active"] == f"/runs/{run.pk}/"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agent": "nobody"}, "unknown agent"),
        ({"method": "sing"}, "unknown training method"),
        ({"method": "agent"}, "unknown training method"),
        ({"preset": "huge"}, "unknown preset"),
        ({"base_model": "/etc"}, "no base model is registered under the name"),
    ],
)
def test_a_wrong_choice_is_refused_and_nothing_is_queued(staff: Client, rated, change, words: str) -> None:
    answer = staff.get("/runs/plan.json", {**WISH, **change})
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    page = staff.post("/runs/new/", {**WISH, **change})
    assert page.status_code == 400
    assert words in page.content.decode()
    assert not TrainingRun.objects.exists()


def test_too_little_to_learn_from_is_told_before_a_run_is_made(staff: Client, agent: Agent, data_dir: Path) -> None:
    answer = staff.get("/runs/plan.json", WISH)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_the_button_queues_the_run_in_the_name_of_who_pressed_it(
    staff: Client, rated: Agent, django_capture_on_commit_callbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = staff.post("/runs/new/", {**WISH, "preset": "quick_prototype"})
    run = TrainingRun.objects.get()
    assert answer["Location"] == f"/runs/{run.pk}/"
    assert (run.method, run.trigger, run.started_by, run.state) == ("mpo", "manual", "bob", "queued")
    assert (run.config["lora_r"], run.options["base_model"]) == (8, rated.base_model)
    [message] = OrmQ.objects.all()
    assert (message.task["func"], message.task["args"]) == ("rl.tasks.start_run", (run.pk,))


def test_a_second_run_of_an_agent_is_refused_with_a_way_to_the_first(staff: Client, rated: Agent) -> None:
    run = make_run(rated, TrainingRun.State.RUNNING)
    page = staff.post("/runs/new/", WISH)
    assert page.status_code == 400
    assert f"support-chat has run {run.pk} in progress" in page.content.decode()
    assert f'<a href="/runs/{run.pk}/">' in page.content.decode()


def test_a_site_without_an_agent_says_so(staff: Client) -> None:
    assert b"There is no agent yet" in staff.get("/runs/new/").content
