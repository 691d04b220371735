"""What a key may do: every address of the API says which scope each of its methods needs, and holds to it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver, reverse
from django.utils import timezone
from rest_framework.views import APIView

from rl.models import Agent, ApiKey, Trace, usual_scopes
from rl.web.api.auth import INGEST, RATE, READ
from rl.web.api.known import forget
from tests.web.api.conftest import SHOP, Caller, assert_problem

OPEN = {"UnknownAddress", "OriginCheck"}
"""Views that need no key."""
ARGUMENTS: dict[str, Any] = {"IntConverter": 1, "UUIDConverter": uuid.UUID(int=7)}
pytestmark = pytest.mark.django_db


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
def test_an_expired_key_is_unknown(call: Call):
    key = key_with(*ApiKey.Scope.values, expires_at=timezone.now() + timedelta(days=1))
    assert call.by(key).status_code != 401
    ApiKey.objects.update(expires_at=timezone.now())
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
