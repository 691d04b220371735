from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.models import Agent, TrainingRun
from tests.admin.records import make_loop, make_run

S = TrainingRun.State


@pytest.fixture
def staff(client: Client, bob) -> Client:
    client.force_login(bob)
    return client


def page_of(client: Client, run: TrainingRun) -> str:
    return client.get(f"/admin/rl/trainingrun/{run.pk}/change/").content.decode()


def test_a_queued_run_is_cancelled_at_once(staff: Client, agent: Agent) -> None:
    run = make_run(agent, S.QUEUED)
    answer = staff.post(f"/admin/rl/trainingrun/{run.pk}/cancel/", follow=True)
    run.refresh_from_db()
    assert run.state == S.CANCELLED
    assert "is cancelled" in answer.content.decode()
    assert LogEntry.objects.get().change_message == "Asked it to stop."


def test_a_running_run_is_asked_to_stop(staff: Client, agent: Agent) -> None:
    run = make_run(agent, S.RUNNING)
    assert "Cancel this run" in page_of(staff, run)
    staff.post(f"/admin/rl/trainingrun/{run.pk}/cancel/")
    run.refresh_from_db()
    assert (run.state, run.cancel_requested) == (S.RUNNING, True)
    assert "Stopping…" in page_of(staff, run)


def test_a_run_that_is_over_stays_as_it_is(staff: Client, agent: Agent) -> None:
    run = make_run(agent, S.SUCCEEDED)
    answer = staff.post(f"/admin/rl/trainingrun/{run.pk}/cancel/", follow=True)
    run.refresh_from_db()
    assert (run.state, run.cancel_requested) == (S.SUCCEEDED, False)
    assert "over already" in answer.content.decode()
    assert "Cancel this run" not in answer.content.decode()


def test_cancelling_takes_a_post_with_a_token(staff: Client, bob, agent: Agent) -> None:
    run = make_run(agent, S.RUNNING)
    address = f"/admin/rl/trainingrun/{run.pk}/cancel/"
    assert staff.get(address).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(bob)
    assert strict.post(address).status_code == 403
    run.refresh_from_db()
    assert not run.cancel_requested


def test_cancelling_takes_the_permission(client: Client, charlie, agent: Agent) -> None:
    run = make_run(agent, S.RUNNING)
    address = f"/admin/rl/trainingrun/{run.pk}/cancel/"
    client.force_login(charlie)
    assert client.post(address)["Location"].startswith("/admin/login/")
    viewer = User.objects.create_user("dora", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_trainingrun"))
    client.force_login(viewer)
    assert "Cancel this run" not in page_of(client, run)
    assert client.post(address).status_code == 403
    run.refresh_from_db()
    assert not run.cancel_requested


def test_a_missing_run_is_not_found(staff: Client) -> None:
    assert staff.post("/admin/rl/trainingrun/99/cancel/").status_code == 404
    assert staff.get("/admin/rl/trainingrun/99/change/", follow=True).status_code == 200


def test_the_page_shows_config_hardware_and_what_it_made(staff: Client, agent: Agent) -> None:
    run = make_loop(agent)
    text = page_of(staff, run)
    assert '<th scope="row">lora_r</th><td>16</td>' in text
    assert '<th scope="row">cpu</th><td>4 cores</td>' in text
    assert "right on 80 % of 10 held-out pairs, base 50 %" in text
    assert f'data-progress="/runs/{run.pk}/progress.json"' in text


def test_the_error_of_a_failed_run_is_shown_as_text(staff: Client, agent: Agent) -> None:
    run = make_run(agent, S.FAILED, error="<b>out of memory</b>")
    assert "&lt;b&gt;out of memory" in page_of(staff, run)
