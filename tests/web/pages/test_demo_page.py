from __future__ import annotations

import pytest
from django.test import Client

from rl.models import Agent, ApiKey
from tests.conftest import make_trace


def test_it_exists_in_development_only(client: Client, db, settings) -> None:
    settings.DEBUG = False
    assert client.get("/demo/").status_code == 404
    settings.DEBUG = True
    assert client.get("/demo/").status_code == 200


@pytest.mark.database
def test_the_policy_lets_the_widget_come_from_and_talk_to_the_public_address(client: Client, db, settings) -> None:
    settings.DEBUG, settings.SITE_URL = True, "https://ratchet.example"
    policy = client.get("/demo/")["Content-Security-Policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["script-src"] == "'self' https://ratchet.example"
    assert directives["connect-src"] == "https://ratchet.example"
    assert directives["default-src"] == "'none'"


@pytest.mark.parametrize("port", [8000, 8123])
def test_it_works_on_the_port_that_it_is_served_at(client: Client, db, settings, port: int) -> None:
    settings.DEBUG, settings.SITE_URL, settings.ALLOWED_HOSTS = True, "http://127.0.0.1:8000", ["localhost"]
    page = client.get("/demo/", headers={"host": f"localhost:{port}"})
    assert page.context["widget_url"] == f"http://127.0.0.1:{port}/static/rl/ratchet-feedback.js"
    assert f"connect-src http://127.0.0.1:{port};" in page["Content-Security-Policy"] + ";"


def test_it_shows_two_answers_to_one_prompt_as_a_pair(client: Client, agent: Agent, settings) -> None:
    settings.DEBUG = True
    assert client.get("/demo/").context["pair"] is None
    for text in ("same", "same", "different"):
        make_trace(agent, "Which?", text)
    pair = client.get("/demo/").context["pair"]
    assert {pair["answer"], pair["other_answer"]} == {"same", "different"}


def test_it_shows_the_three_newest_answers(client: Client, agent: Agent, settings) -> None:
    settings.DEBUG = True
    for number in range(4):
        make_trace(agent, f"question {number}", f"answer {number}")
    make_trace(agent, "unanswered", "")
    answers = client.get("/demo/").context["answers"]
    assert [row["answer"] for row in answers] == ["answer 3", "answer 2", "answer 1"]


@pytest.mark.database
def test_with_a_key_it_shows_what_the_key_may_rate(client: Client, agent: Agent, settings) -> None:
    settings.DEBUG = True
    make_trace(agent, response="ours")
    make_trace(Agent.objects.create(name="other"), response="of another agent")
    _, key = ApiKey.create(name="page", kind="publishable", agent=agent, allowed_origins=["http://localhost"])
    answers = client.get("/demo/", {"key": key}).context["answers"]
    assert [row["answer"] for row in answers] == ["ours"]
