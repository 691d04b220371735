"""Scripts of somebody's pages ask their agent, by a key that everybody can read."""

from typing import Any

import httpx
import pytest

from rl.serving.gateway.request_rate import GatewayRequestRate
from tests.serving.gateway.conftest import Gateway
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.waiting import until

pytestmark = pytest.mark.process
SHOP, STRANGER = "https://shop.example", "https://stranger.example"
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
HELLO = {"model": "support-chat", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
GRANT = ("access-control-allow-origin", "access-control-allow-headers", "access-control-allow-methods")


@pytest.fixture
def ask(gateway: Gateway, upstream: UpstreamDouble) -> Any:
    def send(path: str = CHAT, *, key: str = "chatting page", origin: str = SHOP, **fields: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {gateway.keys[key]}", **({"Origin": origin} if origin else {})}
        return httpx.post(gateway.url + path, headers=headers, json={**HELLO, **fields}, timeout=60)

    return send


def preflight(gateway: Gateway, path: str, origin: str) -> httpx.Response:
    asked = "authorization,content-type,x-stainless-lang"
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked}
    return httpx.options(gateway.url + path, headers=headers, timeout=60)


@pytest.mark.parametrize("path", [CHAT, MESSAGES, "/v1/models"])
def test_a_browser_may_ask_from_a_page_that_some_key_works_from(gateway: Gateway, path: str):
    granted = preflight(gateway, path, SHOP)
    assert granted.status_code == 204
    assert [granted.headers[name] for name in GRANT] == [
        SHOP,
        "authorization,content-type,x-stainless-lang",
        "GET, POST",
    ]
    refused = preflight(gateway, path, STRANGER)
    assert refused.status_code == 405
    assert not [name for name in GRANT if name in refused.headers]


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
def test_a_page_asks_its_agent_and_reads_the_answer(gateway: Gateway, ask: Any, path: str, stream: bool):
    answer = ask(path, stream=stream)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == SHOP
    assert "origin" in answer.headers["vary"].lower()
    assert gateway.trace(answer.headers["x-ratchet-trace"])["response"]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"origin": STRANGER}, "origin_not_allowed"),
        ({"origin": ""}, "origin_not_allowed"),
        ({"origin": "null"}, "origin_not_allowed"),
        ({"model": "support-chat@v1"}, "version_not_allowed"),
        ({"key": "page"}, "secret_key_needed"),
        ({"path": "/v1/conversations"}, "secret_key_needed"),
    ],
)
def test_a_page_may_do_nothing_else(ask: Any, asked: dict[str, str], code: str):
    refused = ask(**asked)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, code)


def test_another_agent_is_not_there_for_a_page(ask: Any):
    refused = ask(model="split")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    assert "support-chat" in refused.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_visitors_are_not_told_which_server_is_down(ask: Any, stream: bool):
    refused = ask(key="page of the dead", model="dead", stream=stream)
    assert refused.status_code >= 500
    assert refused.json()["error"]["message"] == "this answer did not come; the log of the site says why"
    assert "v1" in ask(key="asking server", model="dead", origin="").json()["error"]["message"]


def test_a_page_sees_its_agent_and_no_version(gateway: Gateway):
    headers = {"Authorization": f"Bearer {gateway.keys['chatting page']}", "Origin": SHOP}
    listed = httpx.get(f"{gateway.url}/v1/models", headers=headers, timeout=60).json()
    assert [model["id"] for model in listed["data"]] == ["support-chat"]


def test_a_server_may_have_a_key_that_asks_and_does_nothing_else(gateway: Gateway, ask: Any):
    assert ask(key="asking server", origin="").status_code == 200
    answer = ask(key="asking server", origin=STRANGER)
    assert (answer.status_code, answer.headers.get("access-control-allow-origin")) == (200, None)
    refused = ask("/v1/conversations", key="asking server")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "scope_needed")


def test_visitors_of_a_page_are_counted_by_their_address(settings):
    settings.API_REQUESTS_PER_MINUTE = 1
    limit = GatewayRequestRate()
    assert not limit.count((1, None, "192.0.2.1")).is_exceeded
    assert limit.count((1, None, "192.0.2.1")).is_exceeded
    assert not limit.count((1, None, "192.0.2.2")).is_exceeded


def test_a_page_of_a_key_made_just_now_may_ask_at_once(gateway: Gateway):
    made = gateway.site.json(
        *("api_key", "create", "--name", "new page", "--kind", "publishable", "--agent", "support-chat"),
        *("--allowed-origins", "https://new.example", "--scopes", "chat"),
    )
    assert made["scopes"] == ["chat"]
    until(lambda: preflight(gateway, CHAT, "https://new.example").status_code == 204)
