"""Nobody keeps the site from answering by sending slowly."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.web.front.server import Server, head, read_all

pytestmark = pytest.mark.process


@contextmanager
def slow_posts(server: Server, count: int, path: str, *headers: str) -> Iterator[list[socket.socket]]:
    """Each has sent its head and no byte of its body."""
    with ExitStack() as stack:
        sent = head("POST", path, "Content-Length: 1000", *headers)
        yield [stack.enter_context(server.connect(sent)) for _ in range(count)]


def rate(server: Server, answer: str) -> int:
    traces = server.get("/api/v1/traces/", headers=server.authorization).json()["results"]
    body = {"trace": traces[0]["id"], "rater": answer, "kind": "rating", "scale": "thumb", "value": 1}
    return server.post("/api/v1/feedback/", json=body, headers=server.authorization).status_code


def everything_answers(server: Server, rater: str) -> None:
    assert server.get("/healthz").text == "ok\n"
    assert server.get("/readyz").text == "ok\n"
    assert server.get("/login/").status_code == 200
    assert rate(server, rater) == 201


def test_the_site_answers_beside_slow_sign_ins(server: Server):
    cookie = f"Cookie: csrftoken={'a' * 32}"  # without one, Django refuses before it reads
    with slow_posts(server, 12, "/login/", cookie, "Content-Type: application/x-www-form-urlencoded"):
        everything_answers(server, "beside sign-ins")


def test_the_site_answers_beside_slow_ratings(server: Server):
    key = f"Authorization: Bearer {server.known['page']}"
    with slow_posts(
        server, 12, "/api/v1/feedback/", key, "Origin: https://shop.example", "Content-Type: application/json"
    ):
        everything_answers(server, "beside ratings")


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_body_that_does_not_come_is_answered_and_the_connection_closed(server: Server, framing: str):
    with server.connect(head("POST", "/api/v1/feedback/", framing)) as connection:
        answer = read_all(connection)
    top, _, body = answer.partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 408 ")
    assert b"content-type: application/problem+json" in top
    assert json.loads(body)["status"] == 408


def _drip(connection: socket.socket, stopped: threading.Event) -> None:
    while not stopped.wait(0.2):
        try:
            connection.sendall(b"x")
        except OSError:
            return


def test_a_body_that_drips_is_not_waited_for(server: Server):
    stopped = threading.Event()
    with server.connect(head("POST", "/login/", "Content-Length: 1000")) as connection:
        thread = threading.Thread(target=_drip, args=(connection, stopped))
        thread.start()
        answer = connection.recv(65536)
        stopped.set()
        thread.join()
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_the_gateway_waits_no_longer_and_says_so_in_its_own_words(server: Server):
    with server.connect(head("POST", "/v1/chat/completions", "Content-Length: 1000")) as connection:
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "timeout"
