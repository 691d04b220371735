from __future__ import annotations

from django.test import Client

from rl.models import Agent, ApiKey
from tests.conftest import make_trace


def test_it_exists_in_development_only(client: Client, db, settings) -> None:
    settings.DEBUG = False
    assert client.get("/demo/").status_code == 404
    settings.DEBUG = True
    assert client.get("/demo/").status_code == 200


def test_the_policy_lets_the_widget_come_from_and_talk_to_the_public_address(client: Client, db, settings) -> None:
    settings.DEBUG, settings.SITE_URL = True, "https://ratchet.example"
    policy = client.get("/demo/")["Content-Security-Policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["script-src"] == "'self' https://ratchet.example"
    assert directives["connect-src"] == "https://ratchet.example"
    assert directives["default-src"] == "'none'"


def test_it_shows_the_three_newest_answers(client: Client, agent: Agent, settings) -> None:
    settings.DEBUG = True
    for number in range(4):
        make_trace(agent, f"question {number}", f"answer {number}")
    make_trace(agent, "unanswered", "")
    answers = client.get("/demo/").context["answers"]
    assert [row["answer"] for row in answers] == ["answer 3", "answer 2", "answer 1"]


def test_with_a_key_it_shows_what_the_key_may_rate(client: Client, agent: Agent, settings) -> None:
    settings.DEBUG = True
    make_trace(agent, response="ours")
    make_trace(Agent.objects.create(name="other"), response="of another agent")
    _, key = ApiKey.create(name="page", kind="publishable", agent=agent, allowed_origins=["http://localhost"])
    answers = client.get("/demo/", {"key": key}).context["answers"]
    assert [row["answer"] for row in answers] == ["ours"]
