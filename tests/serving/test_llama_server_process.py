"""A server that has been replaced ends when it has given its answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from rl.serving import llama_server_process
from rl.serving.llama_server_process import let_finish
from rl.serving.upstreams import Upstream

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def _no_gateway_has_to_hear_of_it(monkeypatch):
    monkeypatch.setattr(llama_server_process, "KNOWN_SECONDS", 0)


@contextmanager
def server(*figures: str) -> Iterator[tuple[Upstream, list[str]]]:
    """Says these one after the other, and the last again and again."""
    left, given = list(figures), []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = left.pop(0) if len(left) > 1 else left[0]
            given.append(body)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *arguments: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield Upstream(f"http://127.0.0.1:{listening.server_port}/v1", "m"), given
        finally:
            listening.shutdown()
            thread.join()


def figures(processing: int, deferred: int = 0) -> str:
    lines = f"llamacpp:requests_processing {processing}\nllamacpp:requests_deferred {deferred}\n"
    return f"# HELP llamacpp:requests_processing Number of requests processing.\nllamacpp:n_decode_total 7\n{lines}"


def test_one_that_answers_or_lets_others_wait_is_waited_for():
    with server(figures(2), figures(0, 1), figures(0)) as (upstream, given):
        let_finish(upstream)
    assert given == [figures(2), figures(0, 1), figures(0)]


def test_one_that_never_comes_to_an_end_is_waited_for_as_long_as_an_answer_may_take(settings):
    settings.GATEWAY_TIMEOUT = 0.5
    with server(figures(1)) as (upstream, given):
        let_finish(upstream)
    assert set(given) == {figures(1)}


def test_one_that_is_gone_or_says_nothing_of_it_is_not():
    with server("busy") as (upstream, given):
        let_finish(upstream)
    let_finish(upstream)
    let_finish(None)
    assert given == ["busy"]
