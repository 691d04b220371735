"""The page of one run: what it shows, and who ends it or has it go on."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django_q.models import OrmQ

from rl.models import Agent, TrainingRun
from tests.admin.records import make_loop, make_run

S = TrainingRun.State


@pytest.fixture
def staff(client: Client, bob) -> Client:
    client.force_login(bob)
    return client


def page_of(client: Client, run: TrainingRun) -> str:
    return client.get(f"/runs/{run.pk}/").content.decode()


def test_a_queued_run_is_cancelled_at_once(staff: Client, agent: Agent) -> None:
    run = make_run(agent, S.QUEUED)
    answer = staff.post(f"/runs/{run.pk}/", {"action": "cancel"}, follow=True)
    run.refresh_from_db()
    assert run.state == S.CANCELLED
    assert answer.redirect_chain == [(f"/runs/{run.pk}/", 302)]
    assert ">cancelled</span>" in answer.content.decode()


def test_a_running_run_is_asked_to_stop(staff: Client, agent: Agent) -> None:
    run = make_run(agent, S.RUNNING)
    assert "Cancel this run" in page_of(staff, run)
    staff.post(f"/runs/{run.pk}/", {"action": "cancel"})
    run.refresh_from_db()
    assert (run.state, run.cancel_requested) == (S.RUNNING, True)
    assert "Stopping…" in page_of(staff, run)


def test_a_script_that_asks_for_json_gets_it(staff: Client, agent: Agent) -> None:
    run = make_run(agent, S.RUNNING)
    as_json = {"headers": {"accept": "application/json"}}
    assert staff.post(f"/runs/{run.pk}/", {"action": "cancel"}, **as_json).json() == {"run": run.pk}
    refused = staff.post(f"/runs/{run.pk}/", {"action": "burn"}, **as_json)
    assert (refused.status_code, refused.json()["error"]) == (400, "unknown action 'burn'; known: cancel, resume")


def test_a_run_that_is_over_stays_as_it_is(staff: Client, agent: Agent) -> None:
    run = make_run(agent, S.SUCCEEDED)
    answer = staff.post(f"/runs/{run.pk}/", {"action": "cancel"}, follow=True)
    run.refresh_from_db()
    assert (run.state, run.cancel_requested) == (S.SUCCEEDED, False)
    assert answer.status_code == 400
    assert "over already" in answer.content.decode()
    assert "Cancel this run" not in page_of(staff, run)


@pytest.mark.parametrize(("state", "action"), [(S.RUNNING, "cancel"), (S.FAILED, "resume")])
def test_it_takes_a_post_with_a_token_and_the_permission(client: Client, bob, charlie, agent, state, action) -> None:
    run = make_run(agent, state)
    address, form = f"/runs/{run.pk}/", {"action": action}
    assert client.post(address, form)["Location"].startswith("/login/")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(bob)
    assert strict.post(address, form).status_code == 403
    client.force_login(charlie)
    assert client.post(address, form).status_code == 403
    viewer = User.objects.create_user("dora", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_trainingrun"))
    client.force_login(viewer)
    assert "<button" not in page_of(client, run).partition('<div class="run"')[2].partition("</section>")[0]
    assert client.post(address, form).status_code == 403
    run.refresh_from_db()
    assert (run.state, run.cancel_requested) == (state, False)


def test_what_is_not_there_is_not_done(staff: Client, agent: Agent) -> None:
    assert staff.post("/runs/99/", {"action": "cancel"}).status_code == 404
    assert staff.get("/runs/99/").status_code == 404
    assert staff.post(f"/runs/{make_run(agent, S.RUNNING).pk}/", {"action": "sing"}).status_code == 400


def test_the_raw_record_is_in_the_admin_with_a_way_to_the_page(staff: Client, agent: Agent) -> None:
    run = make_loop(agent)
    assert f'href="/runs/{run.pk}/"' in staff.get(f"/admin/rl/trainingrun/{run.pk}/change/").content.decode()
    assert f'href="/admin/rl/trainingrun/{run.pk}/change/"' in page_of(staff, run)


def test_the_page_says_who_started_the_run(staff: Client, agent: Agent) -> None:
    assert "by alice;" in page_of(staff, make_run(agent, started_by="alice"))


def test_the_page_shows_config_hardware_and_what_it_made(staff: Client, agent: Agent) -> None:
    run = make_loop(agent)
    text = page_of(staff, run)
    assert '<th scope="row">lora_r</th><td>16</td>' in text
    assert '<th scope="row">cpu</th><td>4 cores</td>' in text
    assert "right on 80 % of 10 held-out pairs, base 50 %" in text
    assert f'data-progress="/runs/{run.pk}/progress.json"' in text


def test_the_error_of_a_failed_run_is_shown_as_text(staff: Client, agent: Agent) -> None:
    run = make_run(agent, S.FAILED, error="<b>out of memory</b>")
    text = page_of(staff, run)
    assert "Why it failed" in text
    assert "&lt;b&gt;out of memory" in text
    assert "<b>out of memory" not in text


# --- resuming ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [S.FAILED, S.CANCELLED])
def test_a_stopped_run_is_queued_again(
    staff: Client, agent: Agent, state: S, django_capture_on_commit_callbacks
) -> None:
    run = make_run(agent, state, error="out of memory", cancel_requested=True, attempt=1)
    assert "Resume" in page_of(staff, run)
    with django_capture_on_commit_callbacks(execute=True):
        answer = staff.post(f"/runs/{run.pk}/", {"action": "resume"}, follow=True)
    run.refresh_from_db()
    assert (run.state, run.cancel_requested, run.error) == (S.QUEUED, False, "")
    text = answer.content.decode()
    assert f"Run {run.pk} is queued; a running qcluster starts it." in text
    assert 'data-state="queued"' in text  # so that the page goes on asking
    assert ">Resume</button>" not in text
    (message,) = OrmQ.objects.all()
    assert (message.task["func"], message.task["args"]) == ("rl.tasks.start_run", (run.pk,))


@pytest.mark.parametrize("state", [S.QUEUED, S.RUNNING, S.SUCCEEDED])
def test_other_runs_are_not_resumed(staff: Client, agent: Agent, state: S) -> None:
    run = make_run(agent, state)
    assert ">Resume</button>" not in page_of(staff, run)
    answer = staff.post(f"/runs/{run.pk}/", {"action": "resume"}, follow=True)
    assert "only one that failed or was cancelled is resumed" in answer.content.decode()
    run.refresh_from_db()
    assert run.state == state
    assert not OrmQ.objects.exists()


def test_a_run_waits_until_the_other_run_of_its_agent_is_over(staff: Client, agent: Agent) -> None:
    run, other = make_run(agent, S.FAILED, error="why"), make_run(agent, S.RUNNING)
    answer = staff.post(f"/runs/{run.pk}/", {"action": "resume"}, follow=True)
    assert answer.status_code == 400
    assert f"support-chat has run {other.pk} in progress" in answer.content.decode()
    run.refresh_from_db()
    assert (run.state, run.error) == (S.FAILED, "why")
