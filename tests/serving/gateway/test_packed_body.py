import asyncio
import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable

import httpx
import pytest
from starlette.requests import Request

from rl.serving.gateway.packed_body import HOLD, read_packed
from rl.serving.gateway.refusals import Refusal
from tests.serving.gateway.conftest import Gateway

BODY = b'{"model": "support-chat"}'


def read(sent: bytes, *encodings: str, hold: Callable[[int], None] | None = None) -> bytes:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": sent}

    headers = [(b"content-encoding", encoding.encode()) for encoding in encodings]
    scope = {"type": "http", "headers": headers, **({HOLD: hold} if hold else {})}
    return asyncio.run(read_packed(Request(scope, receive)))


def refused(sent: bytes, *encodings: str) -> Refusal:
    with pytest.raises(Refusal) as raised:
        read(sent, *encodings)
    return raised.value


@pytest.mark.parametrize("encodings", [(), ("",), ("identity",), ("Identity",)])
def test_a_plain_body_passes(encodings: tuple[str, ...]):
    assert read(BODY, *encodings) == BODY


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", " x-gzip"])
def test_a_packed_body_is_unpacked(encoding: str):
    assert read(gzip.compress(BODY), encoding) == BODY


@pytest.mark.parametrize(
    "encodings", [("br",), ("zstd",), ("deflate",), ("gzip, gzip",), ("gzip", "br"), ("x" * 9000,)]
)
def test_an_unknown_encoding_is_refused_with_those_that_are_known(encodings: tuple[str, ...]):
    refusal = refused(BODY, *encodings)
    assert (refusal.status, refusal.code) == (415, "unsupported_encoding")
    assert refusal.headers == {"Accept-Encoding": "gzip, identity"}
    assert "known are gzip and identity" in refusal.message
    assert len(refusal.message) < 200


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (BODY, "not the gzip"),
        (zlib.compress(BODY), "not the gzip"),
        (gzip.compress(BODY)[:-6] + b"\0" * 6, "not the gzip"),
        (gzip.compress(BODY)[:-3], "cut off"),
        (gzip.compress(BODY)[:5], "cut off"),
        (b"", "cut off"),
        (gzip.compress(BODY) + b"more", "goes on"),
        (gzip.compress(BODY) * 2, "goes on"),
    ],
    ids=["plain", "zlib", "checksum", "trailer", "header", "empty", "rest", "twice"],
)
def test_what_is_not_packed_as_it_says_is_refused(sent: bytes, words: str):
    refusal = refused(sent, "gzip")
    assert (refusal.status, refusal.code) == (400, "invalid_encoding")
    assert words in refusal.message


def test_the_limit_is_of_the_unpacked_body_and_a_bomb_is_never_unpacked(settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    assert len(read(gzip.compress(b"x" * 1000), "gzip")) == 1000
    bomb = gzip.compress(b"x" * 50_000_000)
    tracemalloc.start()
    refusal = refused(bomb, "gzip")
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (refusal.status, refusal.code) == (413, "request_too_large")
    assert "1000 bytes" in refusal.message
    assert held < 1_000_000


def test_what_was_unpacked_is_counted_among_what_the_request_holds():
    counted: list[int] = []
    read(gzip.compress(BODY), "gzip", hold=counted.append)
    read(BODY, hold=counted.append)
    assert counted == [len(BODY)]


@pytest.mark.process
@pytest.mark.parametrize("path", ["chat/completions", "responses", "messages", "completions"])
def test_a_packed_request_is_answered_or_refused_in_each_dialect(gateway: Gateway, path: str):
    hello = [{"role": "user", "content": "hello"}]
    asked = {"model": "support-chat", "max_tokens": 9, "messages": hello, "input": "hello", "prompt": "hello"}
    fields = {"responses": ("model", "input"), "completions": ("model", "prompt")}
    asked = {name: asked[name] for name in fields.get(path, ("model", "max_tokens", "messages"))}

    def send(body: bytes, encoding: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {gateway.keys['all']}", "Content-Encoding": encoding}
        return httpx.post(f"{gateway.url}/v1/{path}", content=body, headers=headers)

    packed = gzip.compress(json.dumps(asked).encode())
    answer = send(packed, "gzip")
    assert answer.status_code == 200, answer.text
    sent = ((packed[:-4], "gzip"), (packed, "br"), (gzip.compress(b" " * 100_001), "gzip"))
    answers = [send(*body) for body in sent]
    assert [answer.status_code for answer in answers] == [400, 415, 413]
    kinds = ["invalid_request_error"] * 2 + ["request_too_large" if path == "messages" else "invalid_request_error"]
    assert [answer.json()["error"]["type"] for answer in answers] == kinds
    assert "known are gzip and identity" in answers[1].json()["error"]["message"]
    assert answers[1].headers["accept-encoding"] == "gzip, identity"
