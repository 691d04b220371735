import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rl.models import Agent, Deployment, Experiment
from tests.serving.experiments.experimenting import answers, arms_of, make_experiment, rate, use, version_of


@pytest.fixture
def staff(client: Client, bob: User, data_dir) -> Client:
    client.force_login(bob)
    return client


@pytest.fixture
def experiment(agent: Agent) -> Experiment:
    experiment = make_experiment(agent, guard_metric="error_rate")
    control, challenger = arms_of(experiment)
    use(control, 60, 30)
    use(challenger, 60, 36, failures=2)
    return experiment


def address(experiment: Experiment) -> str:
    return f"/experiments/{experiment.pk}/"


def test_an_empty_list_says_how_to_start_one(staff: Client) -> None:
    assert "manage.py experiment start" in staff.get("/experiments/").content.decode()


@pytest.mark.database
def test_the_list_shows_state_and_answer(staff: Client, experiment: Experiment) -> None:
    Experiment.objects.update(reason="No answer yet <b>")
    text = staff.get("/experiments/").content.decode()
    assert f'<a href="{address(experiment)}">first</a>' in text
    assert "v286 / base (control)" in text
    assert "No answer yet &lt;b&gt;" in text


@pytest.mark.database
def test_the_list_costs_the_same_for_one_as_for_ten(staff, experiment, django_assert_num_queries) -> None:
    with CaptureQueriesContext(connection) as one:
        staff.get("/experiments/")
    for number in range(9):
        make_experiment(Agent.objects.create(name=f"agent-{number}"))
    with django_assert_num_queries(len(one)):
        staff.get("/experiments/")


def test_the_page_shows_arms_intervals_and_what_is_missing(staff: Client, experiment: Experiment) -> None:
    text = staff.get(address(experiment)).content.decode()
    assert "Does v286 have a higher thumbs-up rate than base? A difference of 10 points or more matters." in text
    assert "No answer yet about v286: +10.0 points (95 % interval −" in text
    assert "60.0 %\n(" in text
    assert "Guard: error_rate" in text
    assert "Yes, promote v286" in text
    assert "Nothing serves v286, base" in text


def test_users_who_do_not_fit_the_split_are_told_before_all_else(staff: Client, agent: Agent) -> None:
    experiment = make_experiment(agent)
    control, challenger = arms_of(experiment)
    use(control, 200, 60)
    use(challenger, 100, 90)
    text = staff.get(address(experiment)).content.decode()
    assert '<section class="card verdict bad" aria-labelledby="answer">' in text
    assert '<h2 id="answer">The users do not fit the split</h2>' in text
    assert "v286 100 of 300 where about 150 fit" in text
    found = staff.get(f"{address(experiment)}look.json").json()
    assert (found["answer"], found["verdict"]) == ("The users do not fit the split", "")
    assert found["sample_ratio"]["is_mismatched"]


def test_a_draft_is_started_by_its_button(staff: Client, agent: Agent) -> None:
    experiment = make_experiment(agent, running=False)
    assert "Start the experiment" in staff.get(address(experiment)).content.decode()
    assert staff.post(address(experiment), {"action": "start"})["Location"] == address(experiment)
    experiment.refresh_from_db()
    assert experiment.state == "running"


def test_it_is_stopped_by_its_button(staff: Client, experiment: Experiment) -> None:
    staff.post(address(experiment), {"action": "stop"})
    experiment.refresh_from_db()
    assert (experiment.state, experiment.verdict) == ("stopped", "stopped")
    assert "bob stopped it." in staff.get(address(experiment)).content.decode()


@pytest.mark.database
def test_an_arm_is_promoted_by_its_button(staff: Client, experiment: Experiment, agent: Agent) -> None:
    staff.post(address(experiment), {"action": "promote", "arm": arms_of(experiment)[1].pk})
    assert Deployment.champion(agent) == version_of(agent)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"action": "promote", "arm": "99999"}, "no such arm"),
        ({"action": "promote", "arm": "9" * 40}, "no such arm"),
        ({"action": "promote", "arm": "x"}, "no such arm"),
        ({"action": "promote"}, "no such arm"),
        ({"action": "start"}, "was started before"),
        ({"action": "burn"}, "unknown action"),
        ({}, "unknown action"),
    ],
)
def test_what_cannot_be_done_is_said(staff: Client, experiment: Experiment, fields: dict, problem: str) -> None:
    answer = staff.post(address(experiment), fields)
    assert answer.status_code == 400
    assert problem in answer.content.decode()


def test_the_news_have_figures_texts_and_the_history(staff: Client, experiment: Experiment) -> None:
    news = staff.get(f"{address(experiment)}look.json").json()
    base = next(arm for arm in news["arms"] if arm["is_control"])
    assert (base["users"], base["samples"], base["texts"]["share"], base["requests"]) == (60, 60, "50 %", 60)
    (history,) = news["history"]
    assert history["observations"][-1] == 120
    assert len(history["low"]) == len(history["high"]) == len(history["value"]) == len(history["observations"])
    assert (news["state"], news["verdict"]) == ("running", "")


def test_the_queries_do_not_grow_with_the_ratings(staff, experiment, django_assert_num_queries) -> None:
    with CaptureQueriesContext(connection) as few:
        staff.get(address(experiment))
    rate(answers(arms_of(experiment)[0], [f"somebody {number}" for number in range(50)]), up=10)
    with django_assert_num_queries(len(few)):
        staff.get(address(experiment))


def test_looking_and_deciding_are_two_permissions(client: Client, experiment: Experiment) -> None:
    user = User.objects.create_user("dora", is_staff=True)
    client.force_login(user)
    assert client.get(address(experiment)).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_experiment"))
    assert "Yes, promote" not in client.get(address(experiment)).content.decode()
    assert client.post(address(experiment), {"action": "stop"}).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="change_experiment"))
    assert client.post(address(experiment), {"action": "stop"}).status_code == 302


def test_an_unknown_experiment_is_not_found(staff: Client) -> None:
    assert staff.get("/experiments/1/").status_code == 404
    assert staff.get("/experiments/1/look.json").status_code == 404


def test_a_site_in_another_page_cannot_decide(experiment: Experiment, bob: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(bob)
    assert strict.post(address(experiment), {"action": "stop"}).status_code == 403
