import re
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import anthropic
import httpx
import pytest

from rl.serving.dialects.chat import CHAT
from rl.serving.dialects.dialect import RequestRate
from rl.serving.dialects.messages import MESSAGES
from rl.serving.gateway.request_rate import GatewayRequestRate
from tests.serving.gateway.conftest import Gateway

OPENAI = [f"x-ratelimit-{name}-requests" for name in ("limit", "remaining", "reset")]
ANTHROPIC = [f"anthropic-ratelimit-requests-{name}" for name in ("limit", "remaining", "reset")]
HELLO = {"model": "support-chat", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    known = SimpleNamespace(now=600.0)
    monkeypatch.setattr("rl.serving.gateway.request_rate.time", SimpleNamespace(time=lambda: known.now))
    monkeypatch.setattr("rl.serving.dialects.dialect.time", SimpleNamespace(time=lambda: known.now))
    return known


def test_each_key_has_its_own_count_which_starts_anew_every_minute(settings, clock):
    settings.API_REQUESTS_PER_MINUTE = 2
    limit = GatewayRequestRate()
    rates = [limit.count(1) for _ in range(3)]
    assert [(rate.is_exceeded, rate.remaining) for rate in rates] == [(False, 1), (False, 0), (True, 0)]
    clock.now = 650
    assert limit.count(1).is_exceeded
    assert (limit.count(1).seconds, limit.count(2).remaining) == (10, 1)
    clock.now = 660
    assert limit.count(1).remaining == 1
    assert rates[0].seconds == 0


@pytest.mark.parametrize(("now", "reset"), [(600, "1m0s"), (601.5, "59s"), (648, "12s"), (659.9, "1s"), (700, "0s")])
def test_openai_s_reset_is_a_duration(clock, now: float, reset: str):
    clock.now = now
    assert list(CHAT.rate_headers(RequestRate(600, 7, 660)).items()) == list(
        zip(OPENAI, (600, 593, reset), strict=True)
    )


def test_anthropic_s_reset_is_a_time():
    headers = MESSAGES.rate_headers(RequestRate(5, 7, 1_800_000_060))
    assert list(headers.items()) == list(zip(ANTHROPIC, (5, 0, "2027-01-15T08:01:00Z"), strict=True))


def post(gateway: Gateway, path: str, body: object, key: str = "sender") -> httpx.Response:
    return httpx.post(gateway.url + path, json=body, headers={"Authorization": f"Bearer {gateway.keys[key]}"})


@pytest.mark.process
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_says_how_many_requests_are_left(gateway: Gateway, stream: bool):
    answers = [post(gateway, "/v1/chat/completions", {**HELLO, "stream": stream}) for _ in range(2)]
    assert [answer.headers[OPENAI[0]] for answer in answers] == ["600"] * 2
    left = [int(answer.headers[OPENAI[1]]) for answer in answers]
    assert left[1] in (left[0] - 1, 599)  # a new minute may have begun
    assert re.fullmatch(r"1m0s|[1-5]?\ds", answers[0].headers[OPENAI[2]])
    assert not any(name.startswith("anthropic") for name in answers[0].headers)


@pytest.mark.process
def test_anthropic_s_clients_read_it_in_their_own_headers(gateway: Gateway):
    client = anthropic.Anthropic(base_url=gateway.url, api_key=gateway.keys["sender"], max_retries=0)
    headers = client.messages.with_raw_response.create(**HELLO).headers
    assert headers[ANTHROPIC[0]] == "600"
    reset = datetime.fromisoformat(headers[ANTHROPIC[2]])
    assert reset.tzinfo == UTC
    assert reset.timestamp() % 60 == 0
    assert reset.timestamp() > time.time() - 60
    assert OPENAI[0] not in headers


@pytest.mark.process
def test_a_refusal_says_it_where_the_request_was_counted(gateway: Gateway):
    assert OPENAI[1] in post(gateway, "/v1/chat/completions", {**HELLO, "model": "nobody"}).headers
    assert ANTHROPIC[1] in post(gateway, "/v1/messages", {**HELLO, "model": "nobody"}).headers
    assert OPENAI[1] not in post(gateway, "/v1/chat/completions", HELLO, key="reader").headers
