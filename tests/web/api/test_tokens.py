"""A key that needs tokens rates only what the server signed; with a token a rating may come before its answer."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.signing import TimestampSigner
from django.test import Client
from django.utils import timezone

from rl.collect.feedback import waiting
from rl.collect.feedback.tokens import TokenSubject, read, sign
from rl.models import Agent, ApiKey, Feedback, Trace, WaitingRating
from tests.conftest import make_trace
from tests.web.api.conftest import SHOP, Caller, assert_problem

URL = "/api/v1/feedback/"
pytestmark = pytest.mark.django_db


def token_of(trace: Trace) -> str:
    return sign(TokenSubject(trace.pk, trace.agent_id))


def rating(trace_id: object, **fields: object) -> dict[str, object]:
    return {"trace": str(trace_id), "rater": "anna", "scale": "stars", "value": 4, **fields}


@pytest.fixture
def strict(agent: Agent) -> Caller:
    fields = {"name": "strict", "kind": "publishable", "agent": agent, "allowed_origins": [SHOP], "needs_tokens": True}
    return Caller(ApiKey.create(**fields)[1], SHOP)


def test_a_stored_trace_brings_the_token_that_rates_it(server: Caller, strict: Caller, agent: Agent):
    stored = server.post("/api/v1/traces/", {"agent": agent.name, "prompt": "Hi", "response": "Hello"}).json()
    assert read(stored["token"]) == TokenSubject(Trace.objects.get().pk, agent.pk)
    assert_problem(strict.post(URL, rating(stored["id"])), 403, "token")
    assert strict.post(URL, rating(stored["id"], token=stored["token"])).status_code == 201
    assert_problem(strict.post(f"{URL}retract/", {"trace": stored["id"], "rater": "anna"}), 403, "token")
    gone = strict.post(f"{URL}retract/", {"trace": stored["id"], "rater": "anna", "token": stored["token"]})
    assert gone.json() == {"retracted": True}


def test_every_trace_of_a_list_brings_its_token(server: Caller, agent: Agent):
    item = {"agent": agent.name, "prompt": "Hi", "response": "Hello"}
    results = server.post("/api/v1/traces/", [item, item]).json()["results"]
    assert [str(read(row["token"]).trace_id) for row in results] == [row["id"] for row in results]


@pytest.mark.parametrize("token", ["x", "1.2:3:4", "\u00e4", "1.00000000000000000000000000000000:1:1"])
def test_what_the_site_never_signed_is_refused(strict: Caller, trace: Trace, token: str):
    problem = assert_problem(strict.post(URL, rating(trace.pk, token=token)), 403, "signed by this site")
    assert problem["type"] == "urn:ratchet:problem:token-refused"
    assert Feedback.objects.count() == 0


def test_a_token_signed_for_something_else_is_refused(strict: Caller, trace: Trace):
    other = TimestampSigner(salt="other").sign(f"{trace.agent_id}.{trace.pk.hex}")
    assert_problem(strict.post(URL, rating(trace.pk, token=other)), 403, "signed by this site")


def test_the_token_of_another_answer_or_agent_is_refused(strict: Caller, trace: Trace, other_agent: Agent):
    for token in (token_of(make_trace(trace.agent)), sign(TokenSubject(trace.pk, other_agent.pk))):
        assert_problem(strict.post(URL, rating(trace.pk, token=token)), 403, "another answer")


def test_a_token_expires(strict: Caller, trace: Trace, settings, monkeypatch):
    token = token_of(trace)
    settings.TRACE_TOKEN_DAYS = 2
    later = timezone.now().timestamp() + 2 * 86400 + 5
    monkeypatch.setattr("django.core.signing.time.time", lambda: later)
    assert_problem(strict.post(URL, rating(trace.pk, token=token)), 403, "expired")


def test_a_comparison_needs_a_token_for_each_answer(strict: Caller, agent: Agent):
    left, right = (make_trace(agent, "Which?", text) for text in ("This.", "That."))
    body = {"kind": "comparison", "trace": str(left.pk), "other_trace": str(right.pk), "rater": "a", "choice": "left"}
    assert_problem(strict.post(URL, {**body, "token": token_of(left)}), 403, "other_token")
    assert strict.post(URL, {**body, "token": token_of(left), "other_token": token_of(right)}).status_code == 201


@pytest.mark.parametrize("path", ["/api/v1/ratings/", "/api/v1/ratings/sync/", "/api/ratings/upsert"])
def test_a_call_that_takes_no_token_is_closed_to_such_a_key(strict: Caller, path: str):
    response = strict.post(path, {})
    assert response.status_code in (403, 404), response.content


def test_lines_are_held_to_the_same(strict: Caller, trace: Trace):
    import json

    lines = "\n".join(json.dumps(row) for row in (rating(trace.pk), rating(trace.pk, token=token_of(trace))))
    results = strict.raw(URL, lines, "application/x-ndjson").json()["results"]
    assert [row["status"] for row in results] == [403, 201]


# --- before the answer -------------------------------------------------------------------------------------------------


def test_a_rating_waits_for_its_answer_and_then_counts(server: Caller, strict: Caller, agent: Agent):
    reserved = server.post("/api/v1/tokens/", {"agent": agent.name})
    assert reserved.status_code == 201
    trace_id, token = reserved.json()["trace"], reserved.json()["token"]
    for value in (2, 4):
        answer = strict.post(URL, rating(trace_id, value=value, token=token, tags=["Late"]))
        assert (answer.status_code, answer.json()) == (202, {"trace": trace_id, "waiting": True})
    assert Feedback.objects.count() == 0
    item = {"agent": agent.name, "prompt": "Hi", "response": "Hello", "token": token}
    assert server.post("/api/v1/traces/", item).json()["id"] == trace_id
    event = Feedback.objects.get()
    assert (event.raw_value, event.scale, event.tags, event.rater) == (4, "stars", ["Late"], "device:anna")
    assert not WaitingRating.objects.exists()
    assert server.post("/api/v1/traces/", item).status_code == 200
    assert Trace.objects.count() == 1


def test_a_rating_that_waits_can_be_withdrawn(strict: Caller, agent: Agent):
    subject = TokenSubject(uuid4(), agent.pk)
    strict.post(URL, rating(subject.trace_id, token=sign(subject)))
    body = {"trace": str(subject.trace_id), "rater": "anna", "token": sign(subject)}
    assert strict.post(f"{URL}retract/", body).json() == {"retracted": True}
    assert not WaitingRating.objects.exists()


def test_without_a_token_nothing_waits(shop: Caller):
    assert_problem(shop.post(URL, rating(uuid4())), 404)
    assert_problem(shop.post(URL, rating(uuid4(), token="made up")), 403)
    assert not WaitingRating.objects.exists()


def test_a_full_waiting_room_asks_to_come_again(shop: Caller, agent: Agent, monkeypatch):
    monkeypatch.setattr(waiting, "MOST_OF_ANSWER", 2)
    subject = TokenSubject(uuid4(), agent.pk)
    said = [shop.post(URL, rating(subject.trace_id, rater=name, token=sign(subject))) for name in "abcb"]
    assert [answer.status_code for answer in said] == [202, 202, 429, 202]
    monkeypatch.setattr(waiting, "MOST", 2)
    other = TokenSubject(uuid4(), agent.pk)
    assert shop.post(URL, rating(other.trace_id, token=sign(other))).status_code == 429


@pytest.mark.database
def test_what_waits_longer_than_a_token_is_valid_makes_room(shop: Caller, agent: Agent, monkeypatch):
    monkeypatch.setattr(waiting, "MOST", 1)
    old, new = TokenSubject(uuid4(), agent.pk), TokenSubject(uuid4(), agent.pk)
    shop.post(URL, rating(old.trace_id, token=sign(old)))
    WaitingRating.objects.update(updated_at=timezone.now() - timedelta(days=31))
    assert shop.post(URL, rating(new.trace_id, token=sign(new))).status_code == 202
    assert WaitingRating.objects.get().entry_id == str(new.trace_id)


def test_an_answer_takes_the_tokens_of_its_own_agent_alone(server: Caller, agent: Agent, other_agent: Agent):
    item = {"agent": agent.name, "prompt": "Hi", "response": "Hello"}
    token = sign(TokenSubject(uuid4(), other_agent.pk))
    assert_problem(server.post("/api/v1/traces/", {**item, "token": token}), 400, "another agent")
    assert_problem(server.post("/api/v1/traces/", {**item, "token": "x"}), 400, "/token")
    assert Trace.objects.count() == 0


def test_a_page_learns_whether_it_may_rate(publishable_key: str):
    def ask(origin: str):
        return Client(headers={"origin": origin}).get("/api/v1/feedback/origin/")

    assert ask(SHOP).json() == {"may_rate": True}
    refusal = ask("https://evil.example")
    assert refusal.json() == {"may_rate": False}
    assert refusal["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in refusal
