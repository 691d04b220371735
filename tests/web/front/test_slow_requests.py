"""The front under load: slow clients, broken heads, bodies in chunks, a master that ends, and what is counted."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rl.web.front.application import area_of
from tests.waiting import until
from tests.web.front.server import Server, connections_of, head, read_all, served

pytestmark = pytest.mark.process
LARGE = "/static/drf_spectacular_sidecar/redoc/bundles/redoc.standalone.js.map"
TRACE = {"agent": "support-chat", "prompt": "chunked?", "response": "yes"}


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


@pytest.fixture(scope="module")
def debugging(prepared) -> Iterator[Server]:
    """Has static files without ``collectstatic``."""
    with served(*prepared, HEADER_TIMEOUT="2", REQUEST_TIMEOUT="3") as found:
        yield found


def reader(server: Server, stack: ExitStack) -> socket.socket:
    """Has asked for a file that the connection does not take at once, and reads no more than its first bytes."""
    made = stack.enter_context(socket.socket())
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(60)
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
        until(lambda: connections_of(debugging) == 0, 60)


def test_a_large_file_arrives_whole(debugging: Server):
    answer = debugging.get(LARGE)
    assert len(answer.content) == int(answer.headers["content-length"]) > 3_000_000


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


def test_workers_end_with_a_master_that_was_killed_and_free_the_port(prepared):
    with served(*prepared, "--workers", "2") as server:
        children = psutil.Process(server.process.pid).children(recursive=True)
        assert len(children) >= 2
        server.connect(head("POST", "/login/", "Content-Length: 10")).close()
        os.kill(server.process.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs(children, timeout=60)
        assert alive == []
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            until(lambda: _is_bound(probe, server.port))
        assert "the process that started this worker is gone" in server.log


def _is_bound(probe: socket.socket, port: int) -> bool:
    try:
        probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def pair(prepared) -> Iterator[Server]:
    with served(
        *prepared, "--workers", "2", LOG_FORMAT="json", DEBUG="0", HTTPS="0", ALLOWED_HOSTS="127.0.0.1"
    ) as found:
        yield found


def counted(server: Server) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(server.get("/metrics").text)
    return {
        (sample.labels["area"], sample.labels["method"], sample.labels["status"]): sample.value
        for family in families
        for sample in family.samples
        if sample.name == "ratchet_requests_total"
    }


def test_both_processes_are_counted_together(pair: Server):
    before = counted(pair)
    for _ in range(20):
        pair.get("/login/")
        pair.get("/v1/models")
    after = counted(pair)
    for series in (("pages", "GET", "200"), ("gateway", "GET", "401")):
        assert after[series] - before.get(series, 0) == 20


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/login/", "/api/v1/traces/", "/no-such-page"])
def test_whoever_answers_the_answer_names_its_request(pair: Server, path: str):
    assert len(pair.get(path).headers.get_list("x-request-id")) == 1
    assert pair.get(path, headers={"x-request-id": "given-1"}).headers["x-request-id"] == "given-1"


def test_the_log_is_one_json_object_a_line_with_the_number_of_the_request(pair: Server):
    page = pair.get("/login/", headers={"x-request-id": "before"})
    token = page.cookies["csrftoken"]
    form = {"username": "bob", "password": "wrong", "csrfmiddlewaretoken": token}
    headers = {"x-request-id": "wrong-password-1", "referer": pair.url}
    pair.post("/login/", data=form, headers=headers, cookies={"csrftoken": token})
    lines = [json.loads(line) for line in pair.log.splitlines() if line.startswith("{")]
    assert any(line.get("request_id") == "wrong-password-1" and line["logger"].startswith("axes") for line in lines)
    others = [line for line in pair.log.splitlines() if not line.startswith("{")]
    assert [line.partition(":")[0] for line in others] == ["the site", "the gateway", "Ctrl+C stops it"]


@pytest.mark.parametrize(
    ("path", "area"),
    [
        ("/", "pages"),
        ("/v1/traces", "otlp"),
        ("/v1/chat/completions", "gateway"),
        ("/api/v1/traces/", "api"),
        ("/x", "pages"),
    ],
)
def test_areas_are_few(path: str, area: str):
    assert area_of(path) == area
