"""Callers: a server with a secret key, a page with a publishable one, and strangers."""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from rl.models import Agent, ApiKey, ModelVersion, Trace

SHOP = "https://shop.example"
PROBLEM = "application/problem+json"


MIDDLE_OF_A_MINUTE = 1_000_000_010.0


@pytest.fixture
def endless_minute(monkeypatch) -> None:
    """The one in which requests are counted does not end in the test."""
    monkeypatch.setattr("rl.web.api.base.time.time", lambda: MIDDLE_OF_A_MINUTE)


class Caller:
    """Speaks JSON with one key, from one page or none."""

    def __init__(self, key: str = "", origin: str = "") -> None:
        headers = {name: value for name, value in (("authorization", f"Bearer {key}"), ("origin", origin)) if value}
        if not key:
            headers.pop("authorization")
        self.client = Client(headers=headers, raise_request_exception=True)

    def get(self, path: str, **query: Any) -> HttpResponse:
        return self.client.get(path, query)

    def post(self, path: str, body: Any = None) -> HttpResponse:
        return self.raw(path, json.dumps({} if body is None else body))

    def raw(self, path: str, body: str | bytes, content_type: str = "application/json") -> HttpResponse:
        return self.client.post(path, body, content_type=content_type)


@pytest.fixture
def server(secret_key: str) -> Caller:
    return Caller(secret_key)


@pytest.fixture
def shop(publishable_key: str) -> Caller:
    return Caller(publishable_key, SHOP)


@pytest.fixture
def version(agent: Agent) -> ModelVersion:
    return ModelVersion.objects.create(agent=agent, name="v25", base_model="tiny", feedback_count=25)


@pytest.fixture
def other_agent(db) -> Agent:
    return Agent.objects.create(name="billing")


@pytest.fixture
def entry(agent: Agent) -> Trace:
    return entry_of(agent, "e00001")


def entry_of(agent: Agent, entry_id: str) -> Trace:
    prompt = [{"role": "user", "content": f"question of {entry_id}"}]
    return Trace.objects.create(agent=agent, prompt=prompt, response="comparison (hero)", external_id=entry_id)


def key_for(agent: Agent | None, kind: str = ApiKey.Kind.SECRET, scopes: Sequence[str] = ApiKey.Scope.values) -> str:
    origins = [SHOP] if kind == ApiKey.Kind.PUBLISHABLE else []
    return ApiKey.create(name="test", kind=kind, agent=agent, allowed_origins=origins, scopes=scopes)[1]


def assert_problem(response: HttpResponse, status: int, *words: str) -> dict[str, Any]:
    """It is a problem document of this status whose text has all the words; returns it."""
    assert response.status_code == status, response.content
    assert response["content-type"] == PROBLEM
    document = response.json()
    assert document["status"] == status
    assert document["type"].startswith("urn:ratchet:problem:")
    assert document["title"]
    for word in words:
        assert word in json.dumps(document, ensure_ascii=False), document
    return document


def run_together(work: Callable[[], None], count: int) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
