"""Who may call what: strangers, revoked keys, publishable keys, other pages, other agents' keys."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from rl.collect.feedback.write import rate
from rl.models import Agent, ApiKey, Feedback, Trace
from tests.conftest import make_trace
from tests.web.api.conftest import SHOP, Caller, assert_problem, entry_of, key_for

SECRET_ONLY = [
    ("get", "/api/v1/traces/"),
    ("post", "/api/v1/traces/"),
    ("get", f"/api/v1/traces/{uuid.UUID(int=7)}/"),
    ("get", "/api/v1/feedback/"),
    ("get", "/api/v1/feedback/1/"),
    ("post", "/api/v1/feedback/1/retract/"),
]
RATING = [
    ("post", "/api/v1/feedback/"),
    ("post", "/api/v1/feedback/retract/"),
    ("post", "/api/v1/ratings/"),
    ("post", "/api/v1/ratings/sync/"),
]
pytestmark = pytest.mark.django_db


def rating_of(trace: Trace, **fields) -> dict:
    return {"trace": str(trace.pk), "rater": "anna", "scale": "thumb", "value": 1, **fields}


@pytest.mark.parametrize(("method", "path"), SECRET_ONLY + RATING)
def test_it_refuses_strangers(method: str, path: str):
    response = getattr(Caller(), method)(path)
    assert_problem(response, 401)
    assert response["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "path"), SECRET_ONLY + RATING)
def test_it_refuses_a_key_that_it_does_not_know(method: str, path: str):
    assert_problem(getattr(Caller("sk_" + "x" * 43, SHOP), method)(path), 401, "unknown, was revoked")


@pytest.mark.parametrize(("method", "path"), SECRET_ONLY + RATING)
def test_it_refuses_a_revoked_key(server: Caller, method: str, path: str):
    ApiKey.objects.get().revoke()
    assert_problem(getattr(server, method)(path), 401, "unknown, was revoked")


@pytest.mark.parametrize(("method", "path"), SECRET_ONLY)
def test_it_refuses_a_publishable_key_on_what_needs_a_secret_one(shop: Caller, method: str, path: str):
    assert_problem(getattr(shop, method)(path), 403, "secret key")


@pytest.mark.parametrize(("method", "path"), RATING)
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://shop.example",
        "https://shop.example.evil.example",
        "https://shop.example:444",
    ],
)
def test_it_refuses_a_publishable_key_from_another_page_and_names_it(
    publishable_key: str, method: str, path: str, origin: str
):
    assert_problem(getattr(Caller(publishable_key, origin), method)(path), 403, origin)


@pytest.mark.parametrize(("method", "path"), RATING)
def test_it_refuses_a_publishable_key_outside_a_browser(publishable_key: str, method: str, path: str):
    assert_problem(getattr(Caller(publishable_key), method)(path), 403, "no Origin")


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic YTpi", "sk_abc", "Bearer é", "Bearer " + "x" * 100_000]
)
def test_a_header_that_is_no_bearer_key_is_unauthorised(client, header: str):
    assert_problem(client.get("/api/v1/traces/", headers={"authorization": header}), 401)


def test_a_session_of_the_site_is_no_api_key(client, bob):
    client.force_login(bob)
    assert_problem(client.get("/api/v1/traces/"), 401)


def test_a_publishable_key_rates_as_a_device(shop: Caller, trace: Trace):
    response = shop.post("/api/v1/feedback/", rating_of(trace))
    assert response.status_code == 201
    assert response.json()["rater"] == Feedback.objects.get().rater == "device:anna"


def test_a_device_cannot_speak_for_a_person_who_signs_in(shop: Caller, trace: Trace):
    shop.post("/api/v1/feedback/", rating_of(trace, rater="user:1"))
    assert Feedback.objects.get().rater == "device:user:1"


@pytest.mark.parametrize("rater", ["user:1", "USER:1", "  user:1"])
def test_a_server_cannot_speak_for_a_person_who_signs_in(server: Caller, trace: Trace, rater: str):
    assert_problem(server.post("/api/v1/feedback/", rating_of(trace, rater=rater)), 400, "/rater")


def test_a_server_names_raters_as_it_likes(server: Caller, trace: Trace):
    assert server.post("/api/v1/feedback/", rating_of(trace, rater="customer 17")).json()["rater"] == "customer 17"


def test_a_publishable_key_may_not_report_outcomes(shop: Caller, trace: Trace):
    assert_problem(shop.post("/api/v1/feedback/", {"kind": "outcome", "trace": str(trace.pk)}), 403, "outcome")


@pytest.mark.database
def test_of_a_page_the_newest_choice_between_two_answers_counts(shop: Caller, agent: Agent):
    left, right = (make_trace(agent, "Which?", text) for text in ("This.", "That."))
    pair = {"kind": "comparison", "trace": str(left.pk), "other_trace": str(right.pk), "rater": "anna"}
    swapped = {**pair, "trace": str(right.pk), "other_trace": str(left.pk)}
    for body in ({**pair, "choice": "left"}, {**swapped, "choice": "left"}, {**swapped, "choice": "tie"}):
        assert shop.post("/api/v1/feedback/", body).status_code == 201
    shop.post("/api/v1/feedback/", {**pair, "rater": "bob", "choice": "right"})
    current = Feedback.objects.filter(kind="comparison", is_current=True).order_by("id")
    assert [(event.rater, event.choice, event.trace) for event in current] == [
        ("device:anna", "tie", right),
        ("device:bob", "right", left),
    ]


def test_of_a_page_the_newest_correction_counts(shop: Caller, trace: Trace):
    for text in ("first", "second"):
        body = {"kind": "correction", "trace": str(trace.pk), "rater": "anna", "text": text}
        assert shop.post("/api/v1/feedback/", body).status_code == 201
    assert Feedback.objects.get(kind="correction", is_current=True).text == "second"


def test_a_page_compares_and_corrects_answers_of_its_agent_alone(trace: Trace, other_agent: Agent):
    caller = Caller(key_for(other_agent, "publishable"), SHOP)
    about = {"trace": str(trace.pk), "rater": "anna"}
    choice = {"kind": "comparison", "other_trace": str(trace.pk), "choice": "tie", **about}
    assert_problem(caller.post("/api/v1/feedback/", choice), 404)
    assert_problem(caller.post("/api/v1/feedback/", {"kind": "correction", "text": "x", **about}), 404)


@pytest.mark.parametrize("kind", ApiKey.Kind.values)
def test_a_key_of_another_agent_finds_no_trace_to_rate(trace: Trace, other_agent: Agent, kind: str):
    caller = Caller(key_for(other_agent, kind), SHOP)
    assert_problem(caller.post("/api/v1/feedback/", rating_of(trace)), 404)
    assert_problem(caller.post("/api/v1/feedback/retract/", {"trace": str(trace.pk), "rater": "anna"}), 404)


@pytest.mark.parametrize("kind", ApiKey.Kind.values)
def test_a_key_of_another_agent_finds_no_entry_to_rate(agent: Agent, other_agent: Agent, kind: str):
    entry_of(agent, "e00001")
    caller = Caller(key_for(other_agent, kind), SHOP)
    assert_problem(caller.post("/api/v1/ratings/", {"entry_id": "e00001", "device_id": "d", "rating": "up"}), 404)
    answer = caller.post("/api/v1/ratings/sync/", {"ratings": {"e00001": {"rating": "up"}}, "device_id": "d"}).json()
    assert (answer["total"], answer["rejected"][0]["entry_id"]) == (0, "e00001")


@pytest.mark.database
def test_a_secret_key_of_another_agent_sees_nothing(agent: Agent, trace: Trace, other_agent: Agent):
    event = rate(trace, rater="anna", scale="thumb", value=1, source="test").event
    caller = Caller(key_for(other_agent))
    assert caller.get("/api/v1/traces/").json()["results"] == []
    assert caller.get("/api/v1/feedback/").json()["results"] == []
    assert_problem(caller.get(f"/api/v1/traces/{trace.pk}/"), 404)
    assert_problem(caller.get(f"/api/v1/feedback/{event.pk}/"), 404)
    assert_problem(caller.post(f"/api/v1/feedback/{event.pk}/retract/"), 404)
    assert_problem(caller.post("/api/v1/traces/", {"agent": agent.name, "prompt": "q", "response": "a"}), 404)


def test_a_key_of_the_agent_itself_may_rate_and_see(agent: Agent, trace: Trace):
    assert Caller(key_for(agent)).get("/api/v1/traces/").json()["results"][0]["id"] == str(trace.pk)
    shop = Caller(key_for(agent, ApiKey.Kind.PUBLISHABLE), SHOP)
    assert shop.post("/api/v1/feedback/", rating_of(trace)).status_code == 201


def test_a_comparison_cannot_reach_into_another_agent(trace: Trace, agent: Agent, other_agent: Agent):
    body = {"kind": "comparison", "trace": str(trace.pk), "rater": "anna", "choice": "left"}
    foreign = make_trace(other_agent)
    assert_problem(Caller(key_for(agent)).post("/api/v1/feedback/", {**body, "other_trace": str(foreign.pk)}), 404)


def test_the_use_of_a_key_is_written_once_a_minute(server: Caller):
    server.get("/api/v1/traces/")
    first = ApiKey.objects.get().last_used_at
    assert first is not None
    server.get("/api/v1/traces/")
    assert ApiKey.objects.get().last_used_at == first
    ApiKey.objects.update(last_used_at=timezone.now() - timedelta(seconds=61))
    server.get("/api/v1/traces/")
    assert ApiKey.objects.get().last_used_at > first


def test_an_address_that_is_none_answers_with_a_problem(server: Caller):
    assert_problem(server.get("/api/v2/traces/"), 404, "/api/docs/")
    assert_problem(server.post("/api/v1/feedback"), 404, "ends with '/'")
    assert_problem(server.post("/api/decisions/a%0Ab/outcomes/"), 404)


def test_a_method_that_is_none_answers_with_a_problem(server: Caller):
    response = server.client.delete("/api/v1/traces/")
    assert_problem(response, 405)
    assert "POST" in response["allow"]
