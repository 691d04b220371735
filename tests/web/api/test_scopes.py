"""Who may call what: strangers, revoked keys, publishable keys, other pages, other agents' keys."""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver, reverse
from django.utils import timezone
from rest_framework.views import APIView

from rl.collect.feedback.write import rate
from rl.models import Agent, ApiKey, Feedback, Trace, usual_scopes
from rl.web.api.auth import INGEST, RATE, READ, forget
from tests.conftest import make_trace
from tests.web.api.conftest import SHOP, Caller, assert_problem, entry_of, key_for

RATING = [
    ("post", "/api/v1/feedback/"),
    ("post", "/api/v1/feedback/retract/"),
    ("post", "/api/v1/ratings/"),
    ("post", "/api/v1/ratings/sync/"),
]
pytestmark = pytest.mark.django_db
OPEN = {"UnknownAddress", "OriginCheck", "UnknownCall"}
"""Views that need no key."""
ARGUMENTS: dict[str, Any] = {"IntConverter": 1, **dict.fromkeys(("UUIDConverter", "AnswerConverter"), uuid.UUID(int=7))}


def rating_of(trace: Trace, **fields) -> dict:
    return {"trace": str(trace.pk), "rater": "anna", "scale": "thumb", "value": 1, **fields}


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


class Call(NamedTuple):
    method: str
    path: str
    view: type[APIView]

    @property
    def scope(self) -> str:
        """Of a secret key."""
        needed = self.view.scopes[self.method]
        return INGEST if needed == RATE else needed

    def by(self, key: str) -> Any:
        client = Client(headers={"authorization": f"Bearer {key}", "origin": SHOP}, raise_request_exception=False)
        return client.generic(self.method, self.path, b"{}", content_type="application/json")


def patterns(nodes: list[Any], prefix: str = "") -> Iterator[tuple[str, type[APIView]]]:
    for node in nodes:
        route = node.pattern.describe().strip("'").split("'")[0]
        if not isinstance(node, URLPattern):
            yield from patterns(node.url_patterns, prefix + route)
        elif view := getattr(node.callback, "cls", None):
            for name, converter in node.pattern.converters.items():
                kind = type(converter).__name__
                value = str(ARGUMENTS.get(kind, "x"))
                route = route.replace(
                    f"<{kind.removesuffix('Converter').lower().replace('string', 'str')}:{name}>", value
                )
            assert "<" not in route, route
            yield f"/{prefix}{route}", view


def calls() -> list[Call]:
    found = []
    for path, view in patterns(get_resolver().url_patterns):
        if view.__name__ not in OPEN:
            methods = set(view().allowed_methods) - {"OPTIONS", "HEAD"}
            found += [Call(method, path, view) for method in sorted(methods)]
    return found


CALLS = calls()


def key_with(*scopes: str, **fields: Any) -> str:
    return ApiKey.create(name="test", kind="secret", scopes=list(scopes), **fields)[1]


def test_the_walk_meets_the_addresses_that_matter():
    paths = {(call.method, call.path) for call in CALLS}
    assert {
        ("POST", "/api/policies/train_policy/x/"),
        ("POST", "/api/policies/train_policy/x"),
        ("POST", "/v1/traces"),
        ("GET", f"/api/v1/traces/{uuid.UUID(int=7)}/"),
        ("POST", "/api/decisions/x/outcomes/"),
        ("POST", "/api/training/calculate-pending/"),
        ("GET", "/api/policies/x/runs/1/"),
    } <= paths


@pytest.mark.database
@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
def test_a_call_names_a_scope_and_refuses_keys_that_lack_it(call: Call):
    assert call.scope in ApiKey.Scope.values
    others = [scope for scope in ApiKey.Scope.values if scope != call.scope]
    assert call.by(key_with(call.scope)).status_code not in (401, 403, 500)
    refusal = call.by(key_with(*others))
    assert refusal.status_code == 403
    assert f"the scope {call.scope!r}" in refusal.content.decode()


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
def test_a_publishable_key_does_nothing_but_rate(call: Call, publishable_key: str):
    status = call.by(publishable_key).status_code
    assert status not in (401, 403) if call.view.scopes[call.method] == RATE else status == 403


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
def test_strangers_and_unknown_revoked_and_expired_keys_are_refused(call: Call):
    stranger = Client().generic(call.method, call.path, b"{}", content_type="application/json")
    if call.path == "/api/docs/":
        assert stranger["Location"].startswith("/login/")
    else:
        assert (stranger.status_code, stranger["www-authenticate"].split()[0]) == (401, "Bearer")
    unknown = call.by("sk_" + "x" * 43)
    assert (unknown.status_code, b"unknown, was revoked" in unknown.content) == (401, True)
    for changes in ({"expires_at": timezone.now()}, {"revoked_at": timezone.now()}):
        key = key_with(*ApiKey.Scope.values, expires_at=timezone.now() + timedelta(days=1))
        assert call.by(key).status_code != 401
        ApiKey.objects.update(**changes)
        forget()
        assert call.by(key).status_code == 401


def test_views_without_a_key_are_those_that_are_known():
    names = {view.__name__ for _, view in patterns(get_resolver().url_patterns) if not view.permission_classes}
    assert names <= OPEN


def test_a_method_that_names_no_scope_is_refused(secret_key: str, monkeypatch):
    call = next(call for call in CALLS if call.method == "GET" and call.path.startswith("/api/v1/"))
    monkeypatch.setattr(call.view, "scopes", {})
    assert_problem(call.by(secret_key), 403, "no key may do this")


def test_asking_which_methods_there_are_takes_the_scope_read():
    path = reverse("api-traces")
    assert Client(headers={"authorization": f"Bearer {key_with(READ)}"}).options(path).status_code == 200
    assert_problem(Client(headers={"authorization": f"Bearer {key_with(INGEST)}"}).options(path), 403, READ)
    assert Client(headers={"authorization": f"Bearer {key_with(INGEST)}"}).head(path).status_code == 403


def test_a_key_that_was_made_without_saying_more_sends_and_reads_and_does_not_train(agent: Agent, trace: Trace):
    row, key = ApiKey.create(name="server", kind="secret")
    assert row.scopes == usual_scopes() == ["ingest", "read"]
    caller = Caller(key)
    assert caller.get("/api/v1/traces/").status_code == 200
    assert caller.post("/api/v1/traces/", {"agent": agent.name, "prompt": "q", "response": "a"}).status_code == 201
    assert_problem(caller.post(f"/api/policies/train_policy/{agent.name}/"), 403, "train", "ingest, read")


@pytest.mark.database
def test_pages_of_an_expired_publishable_key_get_no_answer_in_advance(publishable_key: str, client: Client):
    headers = {"origin": SHOP, "access-control-request-method": "POST"}
    asked = {"path": "/api/v1/feedback/", "headers": headers}
    assert client.options(**asked)["access-control-allow-origin"] == SHOP
    ApiKey.objects.update(expires_at=timezone.now())
    forget()
    assert "access-control-allow-origin" not in client.options(**asked)
