"""In-process: the front with a site of one line behind it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.http import HttpResponse, HttpResponseRedirect
from rest_framework.settings import api_settings

from rl.serving.gateway.packed_body import HOLD
from rl.serving.gateway.refusals import Refusal
from rl.web.front.answers import RequestRefused
from rl.web.front.application import Front
from rl.web.front.limits import Memory

KEY = {"Authorization": "Bearer sk_right"}
WRONG = {"Authorization": "Bearer sk_wrong"}
SESSION = {"Cookie": "csrftoken=a; sessionid=b"}


def django(environ: dict[str, Any], start_response: Any) -> HttpResponse:
    """Knows one key, and no session."""
    response = HttpResponse("ok")
    if environ.get("HTTP_AUTHORIZATION", KEY["Authorization"]) != KEY["Authorization"]:
        response = HttpResponse("no", status=401)
    elif "HTTP_COOKIE" in environ:
        response = HttpResponseRedirect("/login/?next=/")
    start_response(f"{response.status_code} -", list(response.items()))
    return response


@pytest.fixture
def limits(settings, monkeypatch) -> None:
    """In the middle of a minute."""
    monkeypatch.setattr("rl.web.front.limits.time", SimpleNamespace(time=lambda: 1_000_000_030))
    settings.ANONYMOUS_REQUESTS_PER_MINUTE, settings.SIGN_INS_PER_MINUTE = 3, 2


def statuses(*asked: tuple[str, str, dict[str, str]], address: str = "203.0.113.5", front: Front | None = None) -> list:
    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(front or Front(django), client=(address, 1234))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            return [await client.request(method, path, headers=headers) for method, path, headers in asked]

    answers = asyncio.run(ask())
    for answer in answers:
        if answer.status_code == 429 and not answer.url.path.startswith("/v1/"):
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            assert answer.json()["type"] == "urn:ratchet:problem:throttled"
    return [answer.status_code for answer in answers]


def test_anonymous_requests_of_an_address_are_limited(limits):
    front = Front(django)
    assert statuses(*[("GET", "/", {})] * 5, front=front) == [200, 200, 200, 429, 429]
    assert statuses(("GET", "/", {}), ("GET", "/", KEY), front=front) == [429, 200]
    assert statuses(("GET", "/", {}), address="203.0.113.6", front=front) == [200]


def test_health_is_not_limited(limits):
    assert statuses(*[("GET", "/healthz", {})] * 9) == [200] * 9


def test_wrong_keys_are_limited_and_right_ones_are_not(limits):
    assert statuses(*[("GET", "/", KEY)] * 6) == [200] * 6
    assert statuses(*[("GET", "/", WRONG)] * 5) == [401, 401, 401, 429, 429]


def test_sessions_that_ended_are_limited(limits):
    assert statuses(*[("GET", "/", SESSION)] * 5) == [302, 302, 302, 429, 429]


@pytest.mark.parametrize("path", ["/login/", "/admin/login/"])
def test_signing_in_is_limited_whatever_cookies_say(limits, path: str):
    assert statuses(*[("POST", path, KEY)] * 4) == [200, 200, 429, 429]
    assert statuses(*[("GET", path, KEY)] * 4) == [200] * 4


def test_the_gateway_is_limited_in_its_own_words(limits):
    assert statuses(*[("GET", "/", {})] * 3, ("GET", "/v1/models", {})) == [200, 200, 200, 429]


def test_an_address_counts_as_proxies_that_are_trusted_say(limits, monkeypatch):
    monkeypatch.setattr(api_settings, "NUM_PROXIES", 1)
    asked = [("GET", "/", {"X-Forwarded-For": f"10.0.0.{number}, 198.51.100.{number % 2}"}) for number in range(8)]
    assert statuses(*asked) == [200] * 6 + [429] * 2


def test_a_forwarded_address_is_not_believed_without_proxies(limits):
    asked = [("GET", "/", {"X-Forwarded-For": f"10.0.0.{number}"}) for number in range(5)]
    assert statuses(*asked) == [200, 200, 200, 429, 429]


def test_one_address_cannot_take_all_the_memory_for_bodies(settings):
    settings.MAX_HELD_BYTES, settings.MAX_OTLP_REQUEST_BYTES, settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 400, 50, 50
    memory = Memory()
    with memory.share("a") as take:
        take(100)
        with memory.share("a") as more, pytest.raises(RequestRefused):
            more(1)
        with memory.share("b") as other:
            other(100)
    with memory.share("a") as again:
        again(100)


def test_what_the_gateway_unpacks_takes_of_the_memory_for_bodies(settings, monkeypatch):
    settings.MAX_HELD_BYTES, settings.MAX_OTLP_REQUEST_BYTES, settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 400, 50, 50
    refusals: list[Refusal] = []

    async def gateway(scope: Any, receive: Any, send: Any) -> None:
        scope[HOLD](100)
        with pytest.raises(Refusal) as raised:
            scope[HOLD](1)
        refusals.append(raised.value)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    monkeypatch.setattr("rl.web.front.application.gateway", gateway)
    asked = ("POST", "/v1/chat/completions", KEY)
    assert statuses(asked, asked) == [200, 200]
    assert [(refusal.status, refusal.code) for refusal in refusals] == [(503, "busy")] * 2
