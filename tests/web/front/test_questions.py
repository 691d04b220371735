"""People who signed in ask the gateway: who they are is seen to by the site, and the answer streams."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.conf import settings as site_settings
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from rl.models import Agent, ApiKey, Arm, Assignment, Experiment, Trace
from rl.web.conversations import STEADY
from tests.serving.gateway.test_streaming import WORDS
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.waiting import until
from tests.web.front.in_thread import front_in_thread, serve_by

pytestmark = [pytest.mark.database, pytest.mark.process]


ADDRESS = "/try/support-chat/answer/"


@pytest.fixture
def site(transactional_db: None, data_dir, settings, upstream: UpstreamDouble) -> Iterator[str]:
    with front_in_thread(settings) as url:
        yield url


@pytest.fixture
def agent(transactional_db: None) -> Agent:
    return Agent.objects.create(name="support-chat", system_prompt="Be kind.")


@pytest.fixture
def served(agent: Agent, upstream: UpstreamDouble) -> Agent:
    serve_by(upstream, agent)
    return agent


@pytest.fixture
def alice(transactional_db: None) -> User:
    user = User.objects.create_user("alice")
    user.user_permissions.add(Permission.objects.get(codename="add_feedback"))
    return user


@pytest.fixture
def bob(transactional_db: None) -> User:
    return User.objects.create_superuser("bob")


def signed_in(site: str, user: User | None) -> httpx.Client:
    """A browser: with a session, and the token of a page in cookie and header."""
    cookies, token = {}, "t" * 32
    if user:
        client = Client()
        client.force_login(user)
        cookies[site_settings.SESSION_COOKIE_NAME] = client.cookies[site_settings.SESSION_COOKIE_NAME].value
    cookies["csrftoken"] = token
    return httpx.Client(base_url=site, cookies=cookies, headers={"X-CSRFToken": token}, timeout=60)


def question(*texts: str, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts or ("hello",))]
    return {"messages": messages, "conversation": "abc", **more}


def words_in(line: str) -> str:
    """The words in a line of the stream; the first piece has none."""
    [piece] = pieces_of([line]) or [{}]
    return "".join(choice["delta"].get("content") or "" for choice in piece.get("choices", ()))


def pieces_of(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def text_of(lines: list[str]) -> str:
    return "".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces_of(lines))


def lines_of(answer: httpx.Response) -> list[str]:
    return answer.text.split("\n")


def test_the_answer_streams_and_is_a_trace_of_the_version_in_use(served, alice, site, upstream):
    with signed_in(site, alice) as browser, browser.stream("POST", ADDRESS, json=question("talk slowly")) as answer:
        times, text = [], ""
        for piece in answer.iter_text():
            times.append(time.monotonic())
            text += piece
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-ratchet-version"] == "v2"
    assert text_of(text.split("\n")) == WORDS
    assert text.endswith("data: [DONE]\n\n")
    assert times[-1] - times[0] > 0.5
    trace = until(lambda: Trace.objects.filter(pk=answer.headers["x-ratchet-trace"]).first())
    assert (trace.agent, trace.model_version.name, trace.source) == (served, "v2", "gateway")
    assert (trace.response, trace.question, trace.unit) == (WORDS, "talk slowly", "user:alice")
    assert trace.session_id == f"try-{alice.pk}-abc"
    assert ApiKey.objects.count() == 0


def test_earlier_turns_go_along_and_nothing_else_that_the_page_sends(served, alice, site, upstream):
    body = question("hello", "hi", "and now?", model="other", temperature=9, tools=[{}], url="http://elsewhere.example")
    body["messages"][0] |= {"name": "x", "tool_calls": []}
    with signed_in(site, alice) as browser:
        headers = {"Authorization": "Bearer sk_wrong", "X-Ratchet-Unit": "somebody", "X-Ratchet-Session": "theirs"}
        answer = browser.post(f"{ADDRESS}?model=other", json=body, headers=headers)
    assert answer.status_code == 200
    assert upstream.last["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "and now?"},
    ]
    assert upstream.last["model"] == "support-chat-v2"
    assert set(upstream.last) == {"model", "messages", "stream", "stream_options", "user", "max_tokens", "temperature"}
    assert upstream.last["temperature"] == STEADY
    trace = until(lambda: Trace.objects.filter(pk=answer.headers["x-ratchet-trace"]).first())
    assert (trace.unit, trace.session_id) == ("user:alice", f"try-{alice.pk}-abc")


@pytest.fixture
def arm(served: Agent) -> Arm:
    trial = Experiment.objects.create(agent=served, name="trial", state="running", started_at=timezone.now())
    return Arm.objects.create(experiment=trial, version=served.versions.get(), is_control=True)


def test_a_running_experiment_counts_the_person(arm, alice, site):
    with signed_in(site, alice) as browser:
        answer = browser.post(ADDRESS, json=question())
    assert answer.headers["x-ratchet-arm"] == str(arm.pk)
    assert until(lambda: Assignment.objects.filter(unit="user:alice", arm=arm).exists())


def test_without_a_session_it_leads_to_the_sign_in_and_asks_nobody(served, site, upstream):
    asked = len(upstream.bodies)
    with signed_in(site, None) as browser:
        answer = browser.post(ADDRESS, json=question(), headers={"Authorization": "Bearer sk_wrong"})
    assert (answer.status_code, answer.headers["location"]) == (302, f"/login/?next={ADDRESS}")
    assert len(upstream.bodies) == asked


def test_another_site_cannot_ask_in_his_name(served, alice, site, upstream):
    asked = len(upstream.bodies)
    with signed_in(site, alice) as browser:
        del browser.headers["X-CSRFToken"]
        assert browser.post(ADDRESS, json=question()).status_code == 403
        browser.headers["X-CSRFToken"] = "t" * 32
        assert browser.post(ADDRESS, json=question(), headers={"Origin": "https://evil.example"}).status_code == 403
    assert len(upstream.bodies) == asked


def test_each_person_has_so_many_questions_a_minute(served, alice, bob, site, settings, monkeypatch):
    monkeypatch.setattr("rl.serving.gateway.request_rate.time.time", lambda: 1_800_000_000.0)
    settings.API_REQUESTS_PER_MINUTE = 1
    with signed_in(site, alice) as browser:
        assert browser.post(ADDRESS, json=question()).status_code == 200
        answer = browser.post(ADDRESS, json=question())
    assert answer.status_code == 429
    assert "more than 1 requests in a minute" in answer.json()["error"]["message"]
    assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    with signed_in(site, bob) as browser:
        assert browser.post(ADDRESS, json=question()).status_code == 200


def test_what_nothing_serves_names_the_command(agent, alice, site):
    with signed_in(site, alice) as browser:
        answer = browser.post(ADDRESS, json=question())
    assert answer.status_code == 503
    command = "python3 manage.py deploy_model --agent support-chat --version base --target llama_cpp"
    assert answer.json()["error"]["message"].endswith(f"nothing serves it; deploy it: {command}")


def test_an_answer_that_breaks_off_says_so_in_the_stream(served, alice, site):
    with signed_in(site, alice) as browser:
        pieces = pieces_of(lines_of(browser.post(ADDRESS, json=question("break off"))))
    assert pieces[-1]["error"]["message"] == "the server of v2 broke off: out of memory"


def test_who_stops_stops_the_model_and_what_was_said_is_kept(served, alice, site, upstream):
    upstream.cancelled.clear()
    with signed_in(site, alice) as browser:
        with browser.stream("POST", ADDRESS, json=question("talk for ever")) as answer:
            next(line for line in answer.iter_lines() if words_in(line))
        assert upstream.cancelled.wait(60)
    trace = until(lambda: Trace.objects.filter(pk=answer.headers["x-ratchet-trace"]).first())
    assert trace.details["complete"] is False


def test_an_answer_is_rated_the_moment_it_ends(served, alice, site):
    with signed_in(site, alice) as browser:
        answer = browser.post(ADDRESS, json=question())
        trace = answer.headers["x-ratchet-trace"]
        rated = browser.post("/try/support-chat/rating/", data={"trace": trace, "value": "1"})
    assert (rated.status_code, rated.json()["value"]) == (200, 1.0)
    event = Trace.objects.get(pk=trace).feedback.get()
    assert (event.rater, event.source, event.user) == ("user:alice", "try_page", alice)


def test_a_server_without_a_gateway_says_how_to_start_one(alice, agent):
    client = Client()
    client.force_login(alice)
    answer = client.post(ADDRESS, question(), content_type="application/json")
    assert answer.status_code == 503
    assert answer.json() == {
        "error": "this server passes no questions on; start the site with: python3 manage.py serve"
    }
