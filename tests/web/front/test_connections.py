"""Connections on which little or nothing happens take nothing from others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.waiting import until
from tests.web.front.server import Server, connections_of, head, read_all, served

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def narrow(prepared) -> Iterator[Server]:
    with served(
        *prepared, HEADER_TIMEOUT="2", REQUEST_TIMEOUT="2", MAX_CONNECTIONS="20", MAX_CONNECTIONS_PER_ADDRESS="12"
    ) as found:
        yield found


def test_a_head_that_does_not_come_is_not_waited_for(server: Server):
    with ExitStack() as stack:
        begun = ["", "GET /", "GET / HTTP/1.1\r\nHost: a\r\n", "\r\n"]
        made = [stack.enter_context(server.connect(sent)) for sent in begun]
        second = stack.enter_context(server.connect(head("HEAD", "/healthz")))
        assert second.recv(65536).startswith(b"HTTP/1.1 200 ")
        second.sendall(b"\r\n")
        assert [read_all(connection) for connection in (*made, second)] == [b""] * 5


def test_a_head_that_does_not_end_is_refused(server: Server):
    with server.connect("GET / HTTP/1.1\r\n") as connection:
        line = b"X-Filler: " + b"x" * 8000 + b"\r\n"
        try:
            for _ in range(1000):
                connection.sendall(line)
        except OSError:
            pass
        else:
            pytest.fail("eight megabytes of head were taken")
    assert server.get("/healthz").text == "ok\n"


def test_trailers_are_no_headers(server: Server):
    """They would be: ``Authorization`` here."""
    trailer = f"Authorization: {server.authorization['Authorization']}"
    body = f"2\r\n{{}}\r\n0\r\n{trailer}\r\n\r\n"
    sent = head("POST", "/api/v1/feedback/", "Transfer-Encoding: chunked", "Connection: close") + body
    with server.connect(sent) as connection:
        assert read_all(connection).startswith(b"HTTP/1.1 401 ")


def test_one_address_gets_so_many_connections_and_no_more(narrow: Server):
    with ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(narrow.connect())
        late = stack.enter_context(narrow.connect())
        assert read_all(late).startswith(b"HTTP/1.1 503 ")
    until(lambda: connections_of(narrow) == 0)
    assert narrow.get("/healthz").text == "ok\n"


def idle(server: Server, stack: ExitStack, address: str) -> socket.socket:
    made = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 20, (address, 0)))
    made.sendall(head("GET", "/healthz").encode())
    assert made.recv(65536).startswith(b"HTTP/1.1 200 ")
    return made


def test_an_idle_connection_makes_room(narrow: Server):
    """Loopback has many addresses."""
    with ExitStack() as stack:
        made = [idle(narrow, stack, f"127.0.0.{2 + number // 10}") for number in range(20)]
        assert idle(narrow, stack, "127.0.0.9")
        until(lambda: connections_of(narrow) == 20)
        assert len(made) == 20
