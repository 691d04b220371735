from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from rl.collect.traces.episodes import store_episodes
from rl.models import Agent, MetricPoint, TrainingRun
from rl.runs.stage_log import Stages
from rl.web.pages.runs import LOG_BYTES, eta_seconds, log_tail
from tests.admin.records import make_run
from tests.collect.made_episodes import trained


@pytest.fixture
def run(agent: Agent, data_dir: Path) -> TrainingRun:
    run = make_run(agent, TrainingRun.State.RUNNING, step=20, total_steps=100, stage="training", attempt=1)
    MetricPoint.objects.bulk_create(
        [MetricPoint(run=run, step=step, values={"loss": 1 / step, "nan": None}) for step in (10, 20)]
    )
    return run


def test_it_tells_how_far_the_run_is(client: Client, bob, run: TrainingRun) -> None:
    run.directory.mkdir(parents=True)
    (run.directory / "log.txt").write_text("step 10\nstep 20\n")
    client.force_login(bob)
    answer = client.get(f"/runs/{run.pk}/progress.json").json()
    assert answer["points"] == [[10, {"loss": 0.1, "nan": None}], [20, {"loss": 0.05, "nan": None}]]
    assert (answer["state"], answer["stage"], answer["step"], answer["total_steps"]) == ("running", "training", 20, 100)
    assert answer["log_tail"] == "step 10\nstep 20\n"
    assert answer["error"] == ""


def test_it_tells_how_many_tasks_are_solved(client: Client, bob, run: TrainingRun) -> None:
    client.force_login(bob)
    assert client.get(f"/runs/{run.pk}/progress.json").json()["success"] is None
    store_episodes(run.agent, [trained(step=4), trained("b", step=4, reward=0.0, success=False)], run)
    answer = client.get(f"/runs/{run.pk}/progress.json").json()
    assert answer["success"] == {"step": [4], "train": [0.5], "eval": [None]}


@pytest.mark.database
def test_it_sends_only_the_points_after_the_one_that_is_known(client: Client, bob, run: TrainingRun) -> None:
    client.force_login(bob)
    answer = client.get(f"/runs/{run.pk}/progress.json?after=10").json()
    assert [step for step, _ in answer["points"]] == [20]


@pytest.mark.parametrize("after", ["x", "1.5", "99999999999", "--1", ""])
def test_a_step_that_is_no_number_is_refused(client: Client, bob, run: TrainingRun, after: str) -> None:
    client.force_login(bob)
    answer = client.get(f"/runs/{run.pk}/progress.json", {"after": after})
    assert answer.status_code == 400
    assert "not a step number" in answer.json()["error"]


def test_strangers_and_raters_are_refused(client: Client, alice, charlie, run: TrainingRun) -> None:
    address = f"/runs/{run.pk}/progress.json"
    assert client.get(address).status_code == 302
    for user in (alice, charlie):
        client.force_login(user)
        assert client.get(address).status_code == 403


def test_staff_need_the_permission_to_see_runs(client: Client, run: TrainingRun) -> None:
    user = User.objects.create_user("dora", is_staff=True)
    client.force_login(user)
    assert client.get(f"/runs/{run.pk}/progress.json").status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_trainingrun"))
    assert client.get(f"/runs/{run.pk}/progress.json").status_code == 200


def test_an_unknown_run_is_not_found(client: Client, bob) -> None:
    client.force_login(bob)
    assert client.get("/runs/1/progress.json").status_code == 404


def test_the_queries_do_not_grow_with_the_points(client: Client, bob, run, django_assert_num_queries) -> None:
    client.force_login(bob)
    with CaptureQueriesContext(connection) as few:
        client.get(f"/runs/{run.pk}/progress.json")
    MetricPoint.objects.bulk_create([MetricPoint(run=run, step=step, values={}) for step in range(30, 60)])
    with django_assert_num_queries(len(few)):
        client.get(f"/runs/{run.pk}/progress.json")


def write_pace(run: TrainingRun, **pace: float) -> None:
    run.directory.mkdir(parents=True, exist_ok=True)
    now = time.time()
    whole = {"first_step": 1, "first_at": now - 50, "step": 11, "total": 31, "at": now, **pace}
    (run.directory / "stages.json").write_text(json.dumps({"stages": ["training"], "pace": whole}))


@pytest.mark.database
def test_the_rest_of_a_stage_takes_as_long_as_its_steps_so_far(client: Client, bob, run: TrainingRun) -> None:
    """The hour before its first step, loading and sampling, does not count."""
    TrainingRun.objects.update(started_at=timezone.now() - timedelta(hours=1))
    write_pace(run)
    client.force_login(bob)
    assert client.get(f"/runs/{run.pk}/progress.json").json()["eta_seconds"] == pytest.approx(100, abs=3)


def test_a_step_that_takes_long_does_not_bring_the_end_nearer_for_ever(run: TrainingRun) -> None:
    write_pace(run, first_at=time.time() - 650, at=time.time() - 600)
    assert eta_seconds(run, Stages.read(run.directory)) == pytest.approx(95, abs=1)


@pytest.mark.parametrize("pace", [{"step": 1}, {"total": 3}])
def test_the_end_is_not_guessed_without_a_measure(run: TrainingRun, pace: dict) -> None:
    assert eta_seconds(run, Stages.read(run.directory)) is None
    write_pace(run, **pace)
    assert eta_seconds(run, Stages.read(run.directory)) is None


def test_the_end_of_a_run_that_is_over_is_not_guessed(run: TrainingRun) -> None:
    write_pace(run)
    run.state = TrainingRun.State.FAILED
    assert eta_seconds(run, Stages.read(run.directory)) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"stages": 3, "pace": null}', '{"stages": [], "pace": {"x": 1}}']
)
def test_a_damaged_file_of_stages_is_none(run: TrainingRun, text: str) -> None:
    run.directory.mkdir(parents=True)
    (run.directory / "stages.json").write_text(text)
    assert Stages.read(run.directory) == Stages((), None)


def test_the_log_starts_at_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("".join(f"line {number:05} é\n" for number in range(2000)))
    tail = log_tail(path)
    assert len(tail.encode()) <= LOG_BYTES
    assert tail.startswith("line 0")
    assert tail.endswith("line 01999 é\n")
    assert "\ufffd" not in tail


def test_a_log_that_is_a_link_or_a_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("password")
    (tmp_path / "log.txt").symlink_to(tmp_path / "secret")
    assert log_tail(tmp_path / "log.txt") == ""
    assert log_tail(tmp_path) == ""
    assert log_tail(tmp_path / "none") == ""
