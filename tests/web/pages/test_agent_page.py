"""The page of an agent shows the loop as five steps, and highlights the step that holds it back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from rl.models import Agent, Deployment, Evaluation, TrainingRun
from rl.web.agent_steps import look_at, why_queued
from tests.admin.records import make_evaluation, make_loop, make_run, make_training_set, make_version
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate, rated

PAGE = "/agents/support-chat/"


def test_only_staff_see_agents_and_their_versions(client: Client, alice, agent: Agent) -> None:
    assert client.get(PAGE).status_code == 302
    client.force_login(alice)
    assert client.get(PAGE).status_code == 403
    assert client.get("/agents/").status_code == 403


def test_an_only_agent_needs_no_choice(client: Client, bob, agent: Agent) -> None:
    client.force_login(bob)
    assert client.get("/agents/")["Location"] == PAGE
    Agent.objects.create(name="other")
    assert 'href="/agents/other/"' in client.get("/agents/").content.decode()


@pytest.mark.database
def test_the_step_that_holds_the_loop_back_is_the_only_one_that_is_highlighted(
    client: Client, bob, agent: Agent
) -> None:
    client.force_login(bob)
    text = client.get(PAGE).content.decode()
    assert text.count('aria-current="step"') == 1
    assert look_at(agent).bottleneck == "collect"
    make_trace(agent)
    assert look_at(agent).bottleneck == "rate"
    evaluation = make_evaluation(make_version(agent, "v1"), make_training_set(agent), ratings_needed=30)
    assert look_at(agent).bottleneck == "serve"
    Evaluation.objects.filter(pk=evaluation.pk).update(verdict="undecided")
    assert look_at(agent).bottleneck == "judge"
    text = client.get(PAGE).content.decode()
    assert text.count('aria-current="step"') == 1
    assert "v1 is perhaps better" in text
    assert "About 30 more ratings" in text
    run = make_run(agent, TrainingRun.State.QUEUED)
    assert look_at(agent).bottleneck == "learn"
    assert f"Run {run.pk}</a> is queued" in client.get(PAGE).content.decode()


def test_a_run_that_waits_for_a_queue_that_does_not_run_says_so(agent: Agent) -> None:
    run = make_run(agent, TrainingRun.State.QUEUED)
    assert why_queued(run) == ""
    run.created_at = timezone.now() - timedelta(minutes=2)
    assert why_queued(run).startswith(f"Run {run.pk} is queued, but qcluster is not running: start the queue")


@pytest.mark.database
def test_the_number_of_queries_does_not_grow_with_the_rows(
    client: Client, bob, agent: Agent, django_assert_num_queries
) -> None:
    def fill(number: int) -> None:
        make_loop(agent, number)
        Deployment.objects.filter(version__name=f"v{number}").update(alias="champion" if number == 1 else "")

    client.force_login(bob)
    fill(1)
    with CaptureQueriesContext(connection) as few:
        client.get(PAGE)
    for number in range(2, 8):
        fill(number)
    with django_assert_num_queries(len(few)):
        client.get(PAGE)


@pytest.mark.database
def test_of_right_and_wrong_answers_it_says_how_often_the_version_in_use_is_right(
    client: Client, bob, agent: Agent
) -> None:
    Agent.objects.update(answer_kind="closed")
    old = make_version(agent, "v1")
    new = make_version(agent, "v2", parent=old)
    Deployment.objects.create(agent=agent, version=new, alias="champion")
    client.force_login(bob)
    pages = (PAGE, "/versions/support-chat/v2/", "/")
    assert all("Right or wrong: nothing judged yet." in client.get(page).content.decode() for page in pages)
    for version, right in ((old, 1), (new, 2)):
        for number in range(3):
            rate(make_trace(agent, f"Question {number}?", "cash", model_version=version), float(number < right))
    said = "Right in 2 of 3 of its answers that people have judged (v1 before it: 1 of 3)."
    assert all(said in client.get(page).content.decode() for page in pages)
    assert "Right in 1 of 3 of its answers that people have judged." in (
        client.get("/versions/support-chat/v1/").content.decode()
    )


def test_of_free_answers_it_says_nothing_of_the_kind(client: Client, bob, agent: Agent) -> None:
    rate(make_trace(agent), 1)
    make_version(agent, "v1")
    client.force_login(bob)
    for page in (PAGE, "/versions/support-chat/v1/", "/"):
        text = client.get(page).content.decode()
        assert "Right in" not in text
        assert "nothing judged yet" not in text


@pytest.mark.database
def test_it_says_what_its_answers_keep_to_and_why(client: Client, bob, agent: Agent) -> None:
    client.force_login(bob)
    assert "The gateway lets it say anything." in client.get(PAGE).content.decode()
    Agent.objects.update(answer_values=["yes", "<no>"])
    text = client.get(PAGE).content.decode()
    assert "one of these and nothing else (as the agent&#x27;s settings say)" in text
    assert "<li>&lt;no&gt;</li>" in text
    schema = {"type": "object", "properties": {"<team>": {"type": "string"}}}
    Agent.objects.update(answer_values=[], answer_schema=schema)
    text = client.get(PAGE).content.decode()
    assert "keep to a JSON schema (as the agent&#x27;s settings say)" in text
    assert "&lt;team&gt;" in text
    Agent.objects.update(keep_to_answers=False)
    assert "<code>keep_to_answers</code> is off" in client.get(PAGE).content.decode()


def test_it_says_that_few_corrections_start_a_run_where_answers_are_right_or_wrong(
    client: Client, bob, agent: Agent
) -> None:
    for number in range(9):
        rate(make_trace(agent, f"Question {number}?", "cash"), 1)
    client.force_login(bob)
    assert "9 ratings that no training has seen; 12 start one" in client.get(PAGE).content.decode()
    assert "3 more of 12 until a run is due" in client.get("/").content.decode()


@pytest.mark.parametrize("name", ["<script>alert(1)"])
def test_names_are_escaped(client: Client, bob, name: str) -> None:
    Agent.objects.create(name=name)
    client.force_login(bob)
    assert "<script>alert" not in client.get("/agents/%3Cscript%3Ealert(1)/").content.decode()


def test_rare_classes_and_what_a_run_would_choose_are_named(client: Client, bob, agent: Agent) -> None:
    for number in range(15):
        rated(agent, f"Question {number}?", "<identity>" if number < 3 else "cards", 1)
    client.force_login(bob)
    text = client.get(PAGE).content.decode()
    assert "3 of `&lt;identity&gt;`: 7 more would help" in text
    assert "answers are closed: 15 accepted answers are 2 distinct ones" in text
    assert "accepted ones are imitated" in text
