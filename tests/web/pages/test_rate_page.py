from __future__ import annotations

import uuid

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rl.models import Agent, Feedback, Trace
from rl.web.drawings import TAGS
from tests.admin.records import make_version
from tests.conftest import make_trace

ADDRESS = "/rate/support-chat/"
JSON = {"Accept": "application/json"}


@pytest.fixture
def answers(agent: Agent) -> list[Trace]:
    return [make_trace(agent, f"question {number}", f"answer {number}") for number in range(4)]


@pytest.fixture
def rater(client: Client, alice: User) -> Client:
    client.force_login(alice)
    return client


def send(client: Client, trace: Trace | None = None, **fields):
    return client.post(ADDRESS, {**({"trace": trace.pk} if trace else {}), **fields}, headers=JSON)


# --- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["/rate/", ADDRESS])
def test_it_takes_a_sign_in_and_the_permission(client: Client, charlie, agent: Agent, address: str) -> None:
    assert client.get(address)["Location"] == f"/login/?next={address}"
    client.force_login(charlie)
    assert client.get(address).status_code == 403
    assert client.post(ADDRESS, {"action": "undo"}).status_code == 403


def test_being_staff_is_no_permission_to_rate(client: Client, agent: Agent) -> None:
    client.force_login(User.objects.create_user("dora", is_staff=True))
    assert client.get(ADDRESS).status_code == 403


def test_a_form_from_elsewhere_is_refused(alice, answers: list[Trace]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    assert send(client, answers[0], value=1).status_code == 403
    assert not Feedback.objects.exists()


def test_a_trace_of_another_agent_cannot_be_rated_here(rater: Client, answers: list[Trace]) -> None:
    other = make_trace(Agent.objects.create(name="other"))
    answer = send(rater, other, value=1)
    assert answer.status_code == 400
    assert "has no trace" in answer.json()["error"]


def test_a_rating_of_somebody_else_cannot_be_undone(rater: Client, bob, answers: list[Trace]) -> None:
    event = Feedback.objects.create(
        agent=answers[0].agent, trace=answers[0], kind="rating", rater="user:bob", scale="thumb", raw_value=1, value=1
    )
    assert send(rater, action="undo", event=event.pk).status_code == 400
    event.refresh_from_db()
    assert event.is_current


# --- choosing an agent -------------------------------------------------------------------------------------------------


def test_one_agent_with_answers_needs_no_choice(rater: Client, answers: list[Trace]) -> None:
    Agent.objects.create(name="without-answers")
    assert rater.get("/rate/")["Location"] == ADDRESS


def test_several_agents_are_a_choice(rater: Client, answers: list[Trace]) -> None:
    make_trace(Agent.objects.create(name="other"))
    text = rater.get("/rate/").content.decode()
    assert '<a href="/rate/other/">' in text
    assert f'<a href="{ADDRESS}">' in text


def test_no_answers_at_all_is_said(rater: Client, agent: Agent) -> None:
    assert "No answers yet" in rater.get("/rate/").content.decode()
    assert "No answers yet" in rater.get(ADDRESS).content.decode()


# --- without JavaScript ------------------------------------------------------------------------------------------------


def test_it_shows_the_oldest_answer_as_escaped_text(rater: Client, agent: Agent) -> None:
    make_trace(agent, "<b>why</b>", "<script>alert(1)</script>\nsecond line")
    text = rater.get(ADDRESS).content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\nsecond line" in text
    assert "&lt;b&gt;why" in text
    assert "<script>alert" not in text


def test_it_does_not_tell_which_model_answered(rater: Client, agent: Agent) -> None:
    make_trace(agent, model_version=make_version(agent, "v4711"), tokens_out=31337, duration_ms=27182)
    text = rater.get(ADDRESS).content.decode() + rater.get(ADDRESS, headers=JSON).content.decode()
    assert not [word for word in ("v4711", "31337", "27182") if word in text]


def test_a_posted_form_rates_and_shows_the_next_answer(rater: Client, answers: list[Trace], alice) -> None:
    fields = {"trace": answers[0].pk, "value": "0", "tags": ["wrong", "too long"], "notes": "No."}
    assert rater.post(ADDRESS, fields)["Location"] == ADDRESS
    event = Feedback.objects.get()
    assert (event.rater, event.user, event.source) == ("user:alice", alice, "rating_page")
    assert (event.scale, event.value, event.tags, event.notes) == ("thumb", 0.0, ["wrong", "too long"], "No.")
    page = rater.get(ADDRESS)
    assert page.context["item"]["trace"] == str(answers[1].pk)
    assert page.context["progress"]["text"] == "1 of 4"


def test_undo_retracts_and_brings_the_answer_back(rater: Client, answers: list[Trace]) -> None:
    rater.post(ADDRESS, {"trace": answers[0].pk, "value": "1"})
    rater.post(ADDRESS, {"action": "undo"})
    first, second = Feedback.objects.order_by("id")
    assert (first.is_current, second.kind, second.retracts) == (False, "retraction", first)
    assert rater.get(ADDRESS).context["item"]["trace"] == str(answers[0].pk)


def test_what_is_refused_is_told_on_a_page(rater: Client, answers: list[Trace]) -> None:
    answer = rater.post(ADDRESS, {"trace": "<b>", "value": "1"})
    assert answer.status_code == 400
    assert "trace: not an id" in answer.content.decode()


# --- with JavaScript ---------------------------------------------------------------------------------------------------


def test_the_answer_in_json_carries_the_next_item_and_the_progress(rater: Client, answers: list[Trace]) -> None:
    answer = send(rater, answers[0], value=1).json()
    assert answer["item"] == {
        "trace": str(answers[1].pk),
        "question": "question 1",
        "before": [],
        "answer": "answer 1",
        "drawing": None,
        "tags": list(TAGS),
    }
    assert (answer["progress"]["done"], answer["progress"]["total"]) == (1, 4)
    assert [decision["question"] for decision in answer["decisions"]] == ["question 0"]


def test_the_item_on_the_screen_is_not_the_next_one(rater: Client, answers: list[Trace]) -> None:
    ahead = rater.get(ADDRESS, {"showing": answers[0].pk}, headers=JSON).json()["item"]
    assert ahead["trace"] == str(answers[1].pk)
    after = send(rater, answers[0], value=1, showing=answers[1].pk).json()["item"]
    assert after["trace"] == str(answers[2].pk)


def test_earlier_messages_come_along_and_the_question_is_the_last_one(rater: Client, agent: Agent) -> None:
    prompt = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "Where?"},
    ]
    Trace.objects.create(agent=agent, prompt=prompt, response="There.")
    item = rater.get(ADDRESS, headers=JSON).json()["item"]
    assert item["question"] == "Where?"
    assert item["before"] == prompt[:3]


def test_undo_answers_with_the_item_that_is_open_again(rater: Client, answers: list[Trace]) -> None:
    event = send(rater, answers[0], value=1).json()["decisions"][0]["event"]
    send(rater, answers[1], value=1)
    answer = send(rater, action="undo", event=event).json()
    assert answer["item"]["trace"] == str(answers[0].pk)
    assert [decision["question"] for decision in answer["decisions"]] == ["question 1"]


def test_after_the_last_answer_there_is_no_item(rater: Client, answers: list[Trace]) -> None:
    for trace in answers:
        answer = send(rater, trace, value=1).json()
    assert answer["item"] is None
    assert "All rated" in rater.get(ADDRESS).content.decode()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "value: This field is required."),
        ({"value": "5"}, "value: Select a valid choice"),
        ({"value": "1", "tags": ["no such tag"]}, "tags: Select a valid choice"),
        ({"value": "1", "notes": "x" * 4001}, "notes: Ensure this value has at most 4000"),
        ({"value": "1", "trace": "1"}, "trace: not an id"),
        ({"value": "1", "trace": str(uuid.UUID(int=1))}, "has no trace"),
        ({"action": "delete"}, "unknown action 'delete'; known: rate, skip, undo"),
        ({"action": "undo"}, "nothing to undo"),
        ({"action": "undo", "event": "x"}, "nothing to undo"),
    ],
)
def test_what_cannot_be_is_refused_in_words_and_writes_nothing(rater, answers, fields: dict, problem: str) -> None:
    answer = rater.post(ADDRESS, {"trace": answers[0].pk, **fields}, headers=JSON)
    assert answer.status_code == 400
    assert problem in answer.json()["error"]
    assert not Feedback.objects.exists()


def test_other_methods_and_agents_are_refused(rater: Client, agent: Agent) -> None:
    assert rater.put(ADDRESS).status_code == 405
    assert rater.get("/rate/nobody/").status_code == 404


def test_the_page_and_its_json_are_not_confused_by_a_cache(rater: Client, answers: list[Trace]) -> None:
    answer = rater.get(ADDRESS)
    assert "Accept" in answer["Vary"]
    assert "no-store" in answer["Cache-Control"]


def test_the_queries_do_not_grow_with_the_answers(rater: Client, answers, agent, django_assert_num_queries) -> None:
    send(rater, answers[0], value=1)
    with CaptureQueriesContext(connection) as get:
        rater.get(ADDRESS)
    get_queries = len(get)
    with CaptureQueriesContext(connection) as post:
        send(rater, answers[1], value=1)
    post_queries = len(post)
    for number in range(40):
        make_trace(agent, f"more {number}")
    *oldest, fresh = Trace.objects.filter(agent=agent).order_by("created_at")[:12]
    for trace in oldest:
        send(rater, trace, value=1)
    with django_assert_num_queries(get_queries):
        rater.get(ADDRESS)
    with django_assert_num_queries(post_queries):
        send(rater, fresh, value=1)
    first_rating = {"postgresql": 16}.get(connection.vendor, 18)  # one statement there, where each is a trip
    assert (get_queries, post_queries) == (9, first_rating)
