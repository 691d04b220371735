"""Who reads slowly keeps nobody busy, and who reads nothing is cut off."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.waiting import until
from tests.web.front.server import Server, connections_of, head, served

pytestmark = pytest.mark.process


LARGE = "/static/drf_spectacular_sidecar/redoc/bundles/redoc.standalone.js.map"


@pytest.fixture(scope="module")
def debugging(prepared) -> Iterator[Server]:
    """Has static files without ``collectstatic``."""
    with served(*prepared, HEADER_TIMEOUT="2", REQUEST_TIMEOUT="3") as found:
        yield found


def reader(server: Server, stack: ExitStack) -> socket.socket:
    """Has asked for a file that the connection does not take at once, and reads no more than its first bytes."""
    made = stack.enter_context(socket.socket())
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(20)
    made.connect(("127.0.0.1", server.port))
    made.sendall(head("GET", LARGE).encode())
    assert made.recv(12) == b"HTTP/1.1 200"
    return made


def test_the_site_answers_beside_slow_readers_and_cuts_off_who_stands_still(debugging: Server):
    with ExitStack() as stack:
        slow = [reader(debugging, stack) for _ in range(12)]
        assert debugging.get("/login/").status_code == 200
        assert debugging.get("/healthz").text == "ok\n"
        assert len(slow) == 12
        until(lambda: connections_of(debugging) == 0, 30)


def test_a_large_file_arrives_whole(debugging: Server):
    answer = debugging.get(LARGE)
    assert len(answer.content) == int(answer.headers["content-length"]) > 3_000_000
