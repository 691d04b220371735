"""What goes wrong, in the shape of OpenAI's errors."""

import hashlib
import uuid
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest
from django.utils import timezone

from rl.serving.gateway.routing import KnownKey
from tests.serving.gateway.conftest import Gateway
from tests.waiting import until

pytestmark = pytest.mark.process


CHAT = "/v1/chat/completions"
HELLO = {"model": "support-chat", "messages": [{"role": "user", "content": "hello"}]}


def send(gateway: Gateway, body: Any = None, key: str = "all", method: str = "POST", path: str = CHAT, **options: Any):
    headers = {"Authorization": f"Bearer {gateway.keys.get(key, key)}"} if key else {}
    headers |= options.pop("headers", {})
    return httpx.request(method, gateway.url + path, json=body or HELLO, headers=headers, **options)


def refused(answer: httpx.Response, status: int, kind: str, *words: str) -> dict[str, Any]:
    """It is a refusal in OpenAI's shape whose message has all the words."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == kind
    for word in words:
        assert word in error["message"]
    return error


@pytest.mark.parametrize("key", ["", "sk_unknown"])
def test_strangers_are_refused(gateway: Gateway, key: str):
    refused(send(gateway, key=key), 401, "authentication_error", "API key")


def test_a_publishable_key_may_not_ask(gateway: Gateway):
    refused(send(gateway, key="page"), 403, "permission_error", "secret key")


def test_a_revoked_key_stops_within_seconds(gateway: Gateway):
    key = "sk_short"
    digest = hashlib.sha256(key.encode()).hexdigest()
    gateway.site.change(
        "INSERT INTO rl_apikey (name, kind, allowed_origins, scopes, start, digest, needs_tokens, created_at)"
        " VALUES ('short', 'secret', '[]', '[\"ingest\"]', 'sk_short', ?, 0, datetime('now'))",
        digest,
    )
    until(lambda: send(gateway, key=key).status_code == 200)
    gateway.site.change("UPDATE rl_apikey SET revoked_at = datetime('now') WHERE name = 'short'")
    until(lambda: send(gateway, key=key).status_code == 401)


def test_a_key_asks_with_the_scope_chat_or_ingest_and_lists_with_read_too(gateway: Gateway):
    error = refused(send(gateway, key="reader"), 403, "permission_error", "'chat' or 'ingest'", "of this key: read")
    assert error["code"] == "scope_needed"
    assert send(gateway, key="sender").status_code == 200
    for path in ("/v1/models", "/v1/models/support-chat"):
        for key in ("reader", "sender"):
            assert send(gateway, key=key, method="GET", path=path).status_code == 200
        refused(send(gateway, key="trainer", method="GET", path=path), 403, "permission_error", "'ingest' or 'read'")


def test_a_key_ends_when_it_expires_not_at_the_next_refresh(monkeypatch):
    now = timezone.now()
    monkeypatch.setattr("rl.serving.gateway.routing.datetime", SimpleNamespace(now=lambda zone: now))
    key = KnownKey(1, True, None, frozenset({"ingest"}), now + timedelta(seconds=1))
    assert not key.has_expired()
    assert KnownKey(2, True, None).has_expired() is False
    now += timedelta(seconds=1)
    assert key.has_expired()


def test_an_unknown_agent_is_answered_with_those_that_the_key_sees(gateway: Gateway):
    error = refused(send(gateway, {**HELLO, "model": "nobody"}), 404, "invalid_request_error", "split", "support-chat")
    assert (error["param"], error["code"]) == ("model", "model_not_found")


def test_a_key_of_another_agent_does_not_see_it(gateway: Gateway):
    error = refused(send(gateway, key="split"), 404, "invalid_request_error", "known: split")
    assert "nowhere" not in error["message"]


def test_a_version_that_was_never_deployed_is_not_found(gateway: Gateway):
    refused(send(gateway, {**HELLO, "model": "support-chat@v9"}), 404, "invalid_request_error", "served: v3, v2, v1")


def test_what_nothing_serves_is_said_with_the_command(gateway: Gateway):
    answer = send(gateway, {**HELLO, "model": "nowhere"})
    unserved = "the base model of nowhere is in use, and nothing serves it"
    refused(answer, 503, "server_error", unserved, "manage.py deploy_model --agent nowhere")
    answer = send(gateway, {**HELLO, "model": "support-chat@v4"})
    refused(answer, 503, "server_error", "v4 of support-chat is not served by anything", "--version v4")
    assert answer.headers["x-ratchet-version"] == "v4"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not JSON"),
        (b"[1]", "must be a JSON object"),
        (b'{"model": "support-chat", "messages": []}', "at least one message"),
        (b'{"model": "support-chat", "messages": ["hi"]}', "messages[0] is not an object"),
        (b'{"model": "support-chat", "messages": [{"role": "alien", "content": "hi"}]}', "message role 'alien'"),
        (b'{"model": "support-chat", "messages": [{"role": "user", "content": 3}]}', "messages[0].content"),
        (b'{"model": "support-chat", "messages": [{"role": "user", "content": "\\u0000"}]}', "NUL"),
        (b'{"model": "support-chat", "messages": [{"role": "user", "content": "\\ud800"}]}', "surrogate"),
        (b'{"model": 7, "messages": [{"role": "user", "content": "hi"}]}', "name of an agent"),
        (b'{"model": "support-chat", "user": "a\\nb", "messages": [{"role": "user", "content": "hi"}]}', "control"),
        (b"[" * 90_000, "not JSON"),
    ],
    ids=range(11),
)
def test_a_body_that_cannot_be_used_is_refused(gateway: Gateway, body: bytes, words: str):
    headers = {"Authorization": f"Bearer {gateway.keys['all']}"}
    refused(httpx.post(gateway.url + CHAT, content=body, headers=headers), 400, "invalid_request_error", words)


def test_a_body_that_is_too_large_is_refused(gateway: Gateway):
    body = {**HELLO, "messages": [{"role": "user", "content": "x" * 100_001}]}
    refused(send(gateway, body), 413, "invalid_request_error", "100000 bytes")


def test_another_method_is_refused(gateway: Gateway):
    refused(send(gateway, method="PUT"), 405, "invalid_request_error", "PUT")


def test_a_4xx_of_the_upstream_is_the_clients(gateway: Gateway):
    answer = send(gateway, {**HELLO, "messages": [{"role": "user", "content": "status 400"}]})
    assert refused(answer, 400, "bad", "too long") == {
        "message": "too long",
        "type": "bad",
        "param": "messages",
        "code": "context",
    }
    answer = send(gateway, {**HELLO, "messages": [{"role": "user", "content": "status 429"}]})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")


def test_what_a_server_forbids_or_puts_off_is_said_as_it_said_it(gateway: Gateway):
    answer = send(gateway, {**HELLO, "messages": [{"role": "user", "content": "status 403"}]})
    refused(answer, 403, "bad", "too long")
    answer = send(gateway, {**HELLO, "messages": [{"role": "user", "content": "status 503"}]})
    refused(answer, 503, "upstream_error", "answered 503: too long")
    assert answer.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("order", "status", "words"),
    [
        ("status 500", 502, "answered 500: too long"),
        ("status 401", 502, "answered 401"),
        ("be silent", 504, "did not finish within 2 seconds"),
        ("talk nonsense", 502, "did not answer with a chat completion"),
    ],
)
def test_an_upstream_that_fails_is_a_bad_gateway(gateway: Gateway, order: str, status: int, words: str):
    answer = send(gateway, {**HELLO, "messages": [{"role": "user", "content": order}]})
    refused(answer, status, "upstream_error", "the server of v2", words)
    assert gateway.site.query("SELECT COUNT(*) FROM rl_trace WHERE prompt LIKE ?", f"%{order}%") == [(0,)]


def test_an_upstream_that_is_down_is_a_bad_gateway(gateway: Gateway):
    refused(send(gateway, {**HELLO, "model": "dead"}), 502, "upstream_error", "cannot be reached")


def test_the_client_raises_its_own_error(gateway: Gateway):
    with pytest.raises(openai.NotFoundError) as raised:
        gateway.say(model="nobody")
    assert raised.value.code == "model_not_found"


def test_the_site_is_beside_it(gateway: Gateway):
    assert httpx.get(gateway.url + "/healthz").text == "ok\n"
    assert httpx.get(gateway.url + "/static/rl/ratchet-feedback.js").status_code == 200
    assert httpx.get(gateway.url + "/login/").status_code == 200
    assert httpx.post(gateway.url + "/v1/traces").status_code == 401


def test_the_token_of_an_answer_is_for_as_many_raters_as_the_request_says(gateway: Gateway):
    for sent, named in ({}, ""), ({"X-Ratchet-Raters": "3"}, ".3"):
        answer = send(gateway, headers=sent)
        subject = answer.headers["x-ratchet-token"].split(":")[0]
        assert subject.endswith(uuid.UUID(answer.headers["x-ratchet-trace"]).hex + named)
    for wrong in ("0", "10001", "many", "-1", "9" * 5000):
        error = refused(send(gateway, headers={"X-Ratchet-Raters": wrong}), 400, "invalid_request_error", "1 to 10000")
        assert error["param"] == "x-ratchet-raters"
