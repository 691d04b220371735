"""Real llama.cpp servers that stand still."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

import psutil
import pytest

from rl.models import Deployment
from rl.serving import llama_server
from rl.serving.llama_server_health import is_stuck
from rl.serving.upstreams import upstream_of
from tests.serving.test_llama_server import (  # noqa: F401  fixtures
    _nothing_is_left,
    ask,
    gguf_file,
    make_version,
    served,
    servers,
)
from tests.waiting import until

pytestmark = pytest.mark.learn

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}
HOLDS_UP = {"type": "string", "pattern": "^" + "a?" * 3000 + "$"}
"""What the gateway lets nobody send."""


@pytest.fixture(autouse=True)
def _soon_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_server, "_SURE_SECONDS", 1.0)


def test_a_server_that_works_is_left_alone(served: Deployment):  # noqa: F811
    assert not is_stuck(upstream_of(served), 20)
    assert not llama_server.revive(served.pk)
    assert [process.pid for process in servers()] == [served.pid]


def test_a_server_that_ended_or_starts_is_not_stuck(served: Deployment):  # noqa: F811
    process = psutil.Process(served.pid)
    process.kill()
    process.wait(5)
    assert not is_stuck(upstream_of(served), 20)
    assert not llama_server.revive(served.pk)


def test_a_server_that_stands_still_is_started_anew_at_the_same_address(served: Deployment):  # noqa: F811
    psutil.Process(served.pid).send_signal(signal.SIGSTOP)
    assert is_stuck(upstream_of(served), 1)
    assert llama_server.revive(served.pk)
    again = Deployment.objects.get()
    assert (again.url, again.settings["restarts"], again.pid != served.pid) == (served.url, 0, True)
    until(lambda: llama_server._answers(again.url))
    assert ask(again, "/chat/completions", HELLO)["usage"]["completion_tokens"] == 2
    assert [process.pid for process in servers()] == [again.pid]


def test_a_grammar_that_never_ends_holds_a_server_up_until_it_is_started_anew(served: Deployment):  # noqa: F811
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": HOLDS_UP}}
    body = json.dumps({**HELLO, "max_tokens": 50, "response_format": schema}).encode()
    send_and_leave(served, body)
    until(lambda: is_stuck(upstream_of(served), 1))
    assert llama_server.revive(served.pk)
    until(lambda: llama_server._answers(served.url))
    assert ask(Deployment.objects.get(), "/chat/completions", HELLO)["usage"]["completion_tokens"] == 2


def test_nothing_is_started_anew_while_somebody_else_starts_or_ends_servers(served: Deployment):  # noqa: F811
    psutil.Process(served.pid).send_signal(signal.SIGSTOP)
    with llama_server._lock(lambda: None):
        assert not llama_server.revive(served.pk)
    assert llama_server.revive(served.pk)


def test_who_goes_away_frees_the_slot(served: Deployment):  # noqa: F811
    """A long answer ends soon after nobody listens: its process has nothing to do then."""
    body = {**HELLO, "max_tokens": 100_000, "ignore_eos": True, "logprobs": True, "top_logprobs": 400}
    process = psutil.Process(served.pid)
    before = sum(process.cpu_times()[:2])
    send_and_leave(served, json.dumps(body).encode())
    until(lambda: sum(process.cpu_times()[:2]) > before)

    def rests() -> bool:
        used = sum(process.cpu_times()[:2])
        time.sleep(0.5)
        return sum(process.cpu_times()[:2]) - used < 0.05

    until(rests)
    assert ask(served, "/chat/completions", HELLO)["usage"]["completion_tokens"] == 2


def send_and_leave(deployment: Deployment, body: bytes) -> None:
    """Nobody waits longer than half a second for the answer."""
    upstream = upstream_of(deployment)
    headers = {"Content-Type": "application/json", **upstream.headers}
    request = urllib.request.Request(f"{upstream.base_url}/chat/completions", body, headers)
    with suppress(TimeoutError, urllib.error.URLError):
        urllib.request.urlopen(request, timeout=0.5)
