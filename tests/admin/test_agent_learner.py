"""What the agent's page says of online learning, and its button."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone
from django_q.models import OrmQ

from rl.models import Agent, Deployment, Feedback, TrainingRun
from rl.online_learner import OnlineLearner
from tests.admin.records import make_run
from tests.conftest import make_trace
from tests.serving.exported import exported

S = TrainingRun.State


@pytest.fixture(autouse=True)
def _enabled(settings) -> None:
    settings.ENABLE_ONLINE_LEARNING = True


def address_of(agent: Agent, page: str = "change") -> str:
    return f"/admin/rl/agent/{agent.pk}/{page}/"


def page_of(client: Client, agent: Agent) -> str:
    return client.get(address_of(agent)).content.decode()


def rows_of(client: Client, agent: Agent) -> dict[str, str]:
    return {name: str(value) for name, value in client.get(address_of(agent)).context["learner_rows"]}


def rate(agent: Agent, value: float = 1.0) -> Feedback:
    return Feedback.objects.create(
        agent=agent, trace=make_trace(agent), kind="rating", rater="ann", scale="thumb", raw_value=value, value=value
    )


# --- the figures ------------------------------------------------------------------------------------------------------


def test_a_new_agent_waits_for_ratings(staff: Client, agent: Agent) -> None:
    rate(agent)
    rows = rows_of(staff, agent)
    assert rows["Retrains by itself"] == "yes"
    assert rows["New ratings"] == "1 of the 100 that start a run"
    assert rows["Run due"] == "no: 1 of 100 ratings that start a run wait"
    assert rows["Last run"] == "–"
    assert rows["Next by the interval"] == f"{agent.created_at + timedelta(hours=24):%Y-%m-%d %H:%M} UTC"
    assert "Online learning now" in page_of(staff, agent)


def test_the_figures_are_those_of_the_command(staff: Client, agent: Agent) -> None:
    rate(agent)
    make_run(agent, S.FAILED, finished_at=timezone.now())
    assert staff.get(address_of(agent)).context["learner"] == OnlineLearner(agent).get_status()


def test_enough_ratings_make_a_run_due(staff: Client, agent: Agent) -> None:
    Agent.objects.update(min_samples_to_retrain=1)
    rate(agent)
    assert rows_of(staff, agent)["Run due"] == "yes: 1 new ratings wait"


def test_the_last_run_is_linked(staff: Client, agent: Agent) -> None:
    run = make_run(agent, S.RUNNING)
    rows = rows_of(staff, agent)
    assert f'<a href="/admin/rl/trainingrun/{run.pk}/change/">run {run.pk}</a>' in rows["Last run"]
    assert "running" in rows["Last run"]
    assert rows["A run is at work"] == "yes"
    assert rows["Run due"] == "no: a run is in progress"
    assert 'form="retrain" disabled' in page_of(staff, agent)


@pytest.mark.parametrize(
    ("site", "switch", "words"),
    [
        (False, True, "no: set ENABLE_ONLINE_LEARNING=1"),
        (False, False, "no: set ENABLE_ONLINE_LEARNING=1"),
        (True, False, "no: switch it on for this agent in the admin"),
    ],
)
def test_it_says_how_to_turn_it_on(staff: Client, agent: Agent, settings, site: bool, switch: bool, words: str) -> None:
    settings.ENABLE_ONLINE_LEARNING = site
    Agent.objects.update(online_learning=switch)
    assert rows_of(staff, agent)["Retrains by itself"] == words


@pytest.mark.database
def test_the_page_reads_no_ratings_after_the_interval(
    staff: Client, agent: Agent, django_assert_max_num_queries
) -> None:
    """One rating gives no pair. The command looks for one, the page says that it has not looked."""
    Agent.objects.update(created_at=timezone.now() - timedelta(hours=25))
    rate(agent)
    agent.refresh_from_db()
    with django_assert_max_num_queries(3):  # run, number of ratings, kind of the newest accepted answers
        status = OnlineLearner(agent).get_status(survey=False)
    assert (status.should_retrain, OnlineLearner(agent).should_retrain()) == (True, False)
    assert rows_of(staff, agent)["Run due"] == (
        "yes: 24 hours have passed and 1 new ratings wait; a run starts if they give a row to learn from"
    )


def test_a_new_agents_form_has_no_figures(staff: Client) -> None:
    assert "Online learning now" not in staff.get("/admin/rl/agent/add/").content.decode()


def test_a_missing_agent_is_not_found(staff: Client) -> None:
    assert staff.get("/admin/rl/agent/99/change/", follow=True).status_code == 200
    assert staff.post("/admin/rl/agent/99/retrain/").status_code == 404


# --- the button -------------------------------------------------------------------------------------------------------


def test_the_button_queues_a_run_and_leads_to_it(
    staff: Client, agent: Agent, django_capture_on_commit_callbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = staff.post(address_of(agent, "retrain"), follow=True)
    run = agent.runs.get()
    assert answer.redirect_chain == [(f"/runs/{run.pk}/", 302)]
    assert f"Run {run.pk} is queued; a running qcluster starts it." in answer.content.decode()
    assert (run.started_by, run.trigger) == ("bob", "online")
    assert "by bob; created" in answer.content.decode()
    (message,) = OrmQ.objects.all()
    assert message.task["args"] == (run.pk,)


def test_a_second_run_is_refused_in_words(staff: Client, agent: Agent) -> None:
    run = make_run(agent, S.RUNNING)
    answer = staff.post(address_of(agent, "retrain"), follow=True)
    assert answer.redirect_chain == [(address_of(agent), 302)]
    assert f"support-chat has run {run.pk} in progress" in answer.content.decode()
    assert agent.runs.count() == 1


@pytest.mark.database
def test_hyper_parameters_that_do_not_work_are_told(staff: Client, agent: Agent) -> None:
    Agent.objects.update(training_overrides={"learning_rat": 1})
    answer = staff.post(address_of(agent, "retrain"), follow=True)
    assert "unknown hyper-parameter &#x27;learning_rat&#x27;" in answer.content.decode()
    assert not agent.runs.exists()


def test_retraining_takes_a_post_with_a_token_and_the_permission(staff: Client, bob, agent: Agent) -> None:
    assert staff.get(address_of(agent, "retrain")).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(bob)
    assert strict.post(address_of(agent, "retrain")).status_code == 403
    editor = User.objects.create_user("dora", is_staff=True)
    editor.user_permissions.add(Permission.objects.get(codename="change_agent"))
    staff.force_login(editor)
    assert "Online learning now" in page_of(staff, agent)
    assert "Retrain now" not in page_of(staff, agent)
    assert staff.post(address_of(agent, "retrain")).status_code == 403
    assert not agent.runs.exists()


def test_the_button_does_not_save_the_form(staff: Client, agent: Agent) -> None:
    text = page_of(staff, agent)
    form = text.partition('<form id="retrain"')[2].partition("</form>")[0]
    assert f'action="{address_of(agent, "retrain")}"' in form
    assert "csrfmiddlewaretoken" in form
    assert text.index('<form id="retrain"') > text.index("</form>", text.index('id="agent_form"'))


@pytest.fixture
def two_versions(agent: Agent, data_dir: Path) -> Agent:
    for name in ("v15", "v25"):
        Deployment.promote(exported(agent, name, data_dir).version)
    return agent


def in_use(agent: Agent) -> str:
    return getattr(Deployment.champion(agent), "name", "base")


def test_one_click_goes_back_and_another_returns(staff: Client, two_versions: Agent):
    assert 'form="roll-back"' in staff.get(address_of(two_versions, "change")).content.decode()
    response = staff.post(address_of(two_versions, "roll_back"), follow=True)
    assert "In use now: v15." in response.content.decode()
    assert in_use(two_versions) == "v15"
    staff.post(address_of(two_versions, "roll_back"))
    assert in_use(two_versions) == "v25"


def test_an_agent_without_a_version_has_no_button(staff: Client, agent: Agent, data_dir: Path):
    assert 'form="roll-back"' not in staff.get(address_of(agent, "change")).content.decode()
    response = staff.post(address_of(agent, "roll_back"), follow=True)
    assert "Nothing was rolled back: support-chat has no version to go back to" in response.content.decode()


def test_only_a_post_of_somebody_with_the_permission_does_it(client: Client, charlie: User, two_versions: Agent):
    charlie.is_staff = True
    charlie.save()
    charlie.user_permissions.add(Permission.objects.get(codename="view_agent"))
    client.force_login(charlie)
    assert 'form="roll-back"' not in client.get(address_of(two_versions, "change")).content.decode()
    assert client.post(address_of(two_versions, "roll_back")).status_code == 403
    charlie.user_permissions.add(Permission.objects.get(codename="change_deployment"))
    assert client.get(address_of(two_versions, "roll_back")).status_code == 405
    assert in_use(two_versions) == "v25"
    assert client.post(address_of(two_versions, "roll_back")).status_code == 302
    assert in_use(two_versions) == "v15"
