"""Bodies arrive whole, however they are framed, and not larger than the settings say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.web.front.server import Server, head

pytestmark = pytest.mark.process


TRACE = {"agent": "support-chat", "prompt": "chunked?", "response": "yes"}


def chunks(body: bytes, size: int = 7) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def post_in_chunks(server: Server, path: str, document: Any) -> Any:
    headers = {**server.authorization, "Content-Type": "application/json"}
    return server.post(path, content=chunks(json.dumps(document).encode()), headers=headers)


def test_traces_come_in_chunks(server: Server):
    answer = post_in_chunks(server, "/api/v1/traces/", TRACE)
    assert answer.status_code == 201, answer.text
    assert (
        server.get(f"/api/v1/traces/{answer.json()['id']}/", headers=server.authorization).json()["response"] == "yes"
    )


def test_ratings_come_in_chunks(server: Server):
    trace = post_in_chunks(server, "/api/v1/traces/", TRACE).json()["id"]
    rating = {"trace": trace, "rater": "chunked", "kind": "rating", "scale": "thumb", "value": 1}
    assert post_in_chunks(server, "/api/v1/feedback/", rating).status_code == 201


def test_spans_come_in_chunks(server: Server):
    """As exporters of OpenTelemetry for Node.js send them."""
    answer = post_in_chunks(server, "/v1/traces", {"resourceSpans": []})
    assert (answer.status_code, answer.json()) == (200, {})


@pytest.mark.parametrize("framed", [lambda body: body, chunks])
def test_a_body_that_is_too_large_is_refused(server: Server, framed: Any):
    body = b" " * 2_621_441
    answer = server.post(
        "/api/v1/traces/",
        content=framed(body) if framed is not chunks else chunks(body, 65536),
        headers=server.authorization,
    )
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")
    assert answer.json()["type"] == "urn:ratchet:problem:too-large"
    assert "2621440 bytes" in answer.json()["detail"]


def test_whoever_asks_before_sending_is_refused_before_sending(server: Server):
    asked = head("POST", "/login/", "Content-Length: 99999999", "Expect: 100-continue")
    with server.connect(asked) as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_whoever_asks_before_sending_is_told_to_send(server: Server):
    asked = head("POST", "/api/v1/feedback/", "Content-Length: 2", "Expect: 100-continue")
    with server.connect(asked) as connection:
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_a_header_with_an_underscore_stands_for_no_other(server: Server):
    answer = server.get("/api/v1/traces/", headers={"X_Forwarded_For": "x", "AUTHORIZATION_": "Bearer y"})
    assert answer.status_code == 401
