"""The list of runs, and several beside each other."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from rl.models import Agent, MetricPoint, TrainingRun
from rl.web import run_lists
from rl.web.run_lists import HEIGHT, WIDTH
from tests.admin.records import make_loop, make_run

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def staff(client: Client, bob: User) -> Client:
    client.force_login(bob)
    return client


def measure(run: TrainingRun, steps: int) -> None:
    points = [MetricPoint(run=run, step=step, values={"accuracy": 1, "loss": 1 / step}) for step in range(1, steps + 1)]
    MetricPoint.objects.bulk_create(points)


@pytest.mark.parametrize("page", ["/runs/", "/runs/compare/", "/runs/1/"])
def test_runs_are_for_staff_with_the_permission(client: Client, alice: User, page: str) -> None:
    assert client.get(page)["Location"] == f"/login/?next={page}"
    client.force_login(alice)
    assert client.get(page).status_code == 403
    client.force_login(User.objects.create_user("dora", is_staff=True))
    assert client.get(page).status_code == 403


@pytest.mark.database
def test_a_run_tells_what_it_learned_from_what_it_made_and_who_started_it(staff: Client, agent: Agent) -> None:
    run = make_loop(agent)
    TrainingRun.objects.filter(pk=run.pk).update(started_by=HOSTILE)
    text = staff.get("/runs/").content.decode()
    for words in ("20 rows", "of 40 ratings", "promote", ">v1</a>", "&lt;script&gt;", '<polyline points="'):
        assert words in text, words
    assert HOSTILE not in text


@pytest.mark.database
def test_agent_and_state_filter_the_list(staff: Client, agent: Agent) -> None:
    mine, failed = make_run(agent), make_run(agent, TrainingRun.State.FAILED)
    other = make_run(Agent.objects.create(name="other"))

    def shown(**filters: str) -> list[TrainingRun]:
        return [row.run for row in staff.get("/runs/", filters).context["shown"].runs]

    assert shown() == [other, failed, mine]
    assert shown(agent="Support-Chat") == [failed, mine]
    assert shown(agent="support-chat", state="failed") == [failed]
    assert shown(state="no such", before="x") == [other, failed, mine]
    assert "There is no agent named &lt;script&gt;" in staff.get("/runs/", {"agent": HOSTILE}).content.decode()


@pytest.mark.database
def test_every_run_is_on_exactly_one_page(staff: Client, agent: Agent) -> None:
    for _ in range(run_lists.PAGE + 3):
        make_run(agent)
    first = staff.get("/runs/").context
    second = staff.get(f"/runs/?{first['older']}").context
    numbers = [row.run.pk for context in (first, second) for row in context["shown"].runs]
    assert numbers == sorted(TrainingRun.objects.values_list("pk", flat=True), reverse=True)
    assert second["older"] == ""


def test_the_list_costs_the_same_for_one_run_and_for_a_page(staff, agent, django_assert_max_num_queries) -> None:
    for number in range(1, 20):
        make_loop(agent, number)
    with django_assert_max_num_queries(8):
        staff.get("/runs/", {"agent": "support-chat"})


def test_the_line_of_a_long_run_has_few_points_within_its_picture(agent: Agent) -> None:
    run = make_run(agent, total_steps=900)
    measure(run, 900)
    [row] = run_lists.newest().runs
    points = [tuple(map(float, point.split(","))) for point in row.spark.split()]
    assert 30 < len(points) <= run_lists.POINTS + 1
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)


@pytest.mark.database
def test_what_differs_between_two_runs_is_named_and_nothing_else(staff: Client, agent: Agent) -> None:
    one = make_run(agent, options={"data": {"val_split": 0.2}, "sweep": False})
    two = make_run(agent, options={"data": {"val_split": 0.3}, "sweep": False})
    two.config = {**two.config, "epochs": 1.0}
    two.save()
    page = staff.get("/runs/compare/", {"run": [one.pk, two.pk, 99, "x"]})
    assert page.context["differences"] == [("epochs", ["3.0", "1.0"]), ("data: val_split", ["0.2", "0.3"])]
    assert b"There is no run 99" in page.content
    assert (
        b"the same settings"
        in staff.get("/runs/compare/", {"run": [one.pk, make_run(agent, options=one.options).pk]}).content
    )


def test_more_runs_than_can_be_told_apart_are_left_out_and_that_is_said(staff: Client, agent: Agent) -> None:
    page = staff.get("/runs/compare/", {"run": [make_run(agent).pk for _ in range(8)]})
    assert len(page.context["figures"]) == 6
    assert b"These are the first 6" in page.content
    assert b"Pick at least two runs" in staff.get("/runs/compare/").content
