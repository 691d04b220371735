"""The page of one run: what it shows, and who ends it or has it go on."""

import json
from dataclasses import replace

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django_q.models import OrmQ

from rl.collect.traces.episodes import store_episodes
from rl.config.training_job import LEARNED_ROWS
from rl.models import Agent, Feedback, TrainingRun
from rl.web.pages.runs import run_episodes
from rl.web.run_lists import HEIGHT, WIDTH
from tests.admin.records import make_loop, make_run
from tests.collect.made_episodes import trained
from tests.conftest import make_trace

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("data_dir")]

S = TrainingRun.State
HOSTILE = "<script>alert(1)</script>"


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
    assert "ranks 80 % of 10 held-out pairs rightly, base 50 %" in text
    assert f'data-progress="/runs/{run.pk}/progress.json"' in text


@pytest.mark.parametrize(
    ("config", "cap", "words"),
    [
        ({"weigh_raters": True}, 1.0, "Those of 1 rater. All weigh alike, unless raters contradict each other."),
        ({}, 0.5, "Those of 1 rater. All weigh alike; nobody decides more than 50% of a training."),
    ],
)
def test_the_page_says_whose_ratings_count_and_how_much(staff: Client, agent: Agent, config, cap, words: str) -> None:
    run = make_loop(agent)
    Agent.objects.update(rater_cap=cap)
    type(run).objects.update(config=config)
    set_by_now = "As the agent is set now."
    Feedback.objects.update(created_at=run.training_set.created_at)
    text = page_of(staff, run)
    assert words in text
    assert (set_by_now in text) is (cap < 1)
    assert "Whose ratings count" not in page_of(staff, make_run(agent))


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


def test_what_is_learned_stands_apart_from_what_is_read_and_leads_to_its_rating(staff: Client, agent: Agent) -> None:
    run, trace = make_run(agent), make_trace(agent)
    rating = Feedback.objects.create(
        agent=agent, trace=trace, kind=Feedback.Kind.CORRECTION, text="cards", rater="anna"
    )
    answer = {"name": "chosen", "tokens": 2, "is_cut": True, "pieces": [["<b>", False], ["cards", True]]}
    rows = [{"prompt": "user: <i>Which team?", "prompt_tokens": 7, "answers": [answer], "feedback": [rating.pk, 10**6]}]
    left_out = [{"reason": "the template refuses it", "question": "Hello?"}]
    run.directory.mkdir(parents=True)
    (run.directory / LEARNED_ROWS).write_text(json.dumps({"rows": rows, "left_out": left_out}))
    page = staff.get(f"/runs/{run.pk}/rows/").content.decode()
    assert '<span class="row-prompt">&lt;b&gt;</span><span class="row-learned">cards</span>' in page
    assert "user: &lt;i&gt;Which team?" in page
    assert f'<a href="/traces/{trace.pk}/">edited answer of anna</a>' in page
    assert "cut at the end" in page
    assert "the template refuses it" in page
    assert f'href="/runs/{run.pk}/rows/"' in staff.get(f"/runs/{run.pk}/").content.decode()


def test_a_run_that_has_not_prepared_its_rows_says_so(staff: Client, agent: Agent) -> None:
    assert "Nothing to show" in staff.get(f"/runs/{make_run(agent).pk}/rows/").content.decode()
