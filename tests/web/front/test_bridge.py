"""In-process: what the bridge does with answers of a site of one line."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from errno import ENOSPC
from typing import Any

import httpx
import pytest
from django.http import HttpResponse, StreamingHttpResponse

from rl.web.front import application, bridge, health
from rl.web.front.application import Front
from rl.web.front.bridge import environ


def front(respond: Callable[[dict[str, Any]], Any]) -> Front:
    def django(given: dict[str, Any], start_response: Any) -> Any:
        response = respond(given)
        cookies = [("Set-Cookie", cookie.output(header="")) for cookie in response.cookies.values()]
        start_response(f"{response.status_code} -", [*response.items(), *cookies])
        return response

    return Front(django)  # type: ignore[arg-type]


def asked(application: Front, *requests: httpx.Request) -> list[httpx.Response]:
    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(application, raise_app_exceptions=False)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport) as client:
            return await asyncio.gather(*(client.send(request) for request in requests))

    return asyncio.run(ask())


def request(path: str = "/", **options: Any) -> httpx.Request:
    return httpx.Request("POST" if options else "GET", f"http://testserver{path}", **options)


def test_a_long_stream_arrives_whole():
    (answer,) = asked(front(lambda _: StreamingHttpResponse(b"%07d\n" % n for n in range(400_000))), request())
    assert len(answer.content) == 3_200_000
    assert answer.content.endswith(b"0399999\n")


@pytest.mark.parametrize(("error", "status"), [(ValueError("a bug"), 500), (OSError(ENOSPC, "no space left"), 507)])
def test_a_stream_that_breaks_is_an_error_and_not_half_an_answer(error: Exception, status: int):
    def broken() -> Iterator[bytes]:
        yield b"a" * 2_000_000
        raise error

    (answer,) = asked(front(lambda _: StreamingHttpResponse(broken())), request())
    assert answer.status_code == status
    assert b"aaa" not in answer.content


def test_what_takes_longer_than_a_stop_may_is_told_to_come_again():
    begun, go_on = threading.Event(), threading.Event()

    def respond(given: dict[str, Any]) -> HttpResponse:
        begun.set()
        go_on.wait(60)
        return HttpResponse("too late")

    async def stopped() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(front(respond))) as client:  # type: ignore[arg-type]
            asking = asyncio.create_task(client.send(request()))
            await asyncio.to_thread(begun.wait, 60)
            asking.cancel()
            return await asking

    answer = asyncio.run(stopped())
    go_on.set()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["type"].endswith(":stopping")


def test_status_headers_and_cookies_arrive():
    def respond(given: dict[str, Any]) -> HttpResponse:
        response = HttpResponse("é", status=418, headers={"X-Name": "ü"})
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        return response

    (answer,) = asked(front(respond), request())
    assert (answer.status_code, answer.text) == (418, "é")
    assert answer.headers["x-name"].encode("latin-1") == "ü".encode("latin-1")
    assert [cookie.partition(";")[0] for cookie in answer.headers.get_list("set-cookie")] == ["a=1", "b=2"]


def test_the_body_has_a_length_however_it_came():
    def pieces() -> Any:
        async def sent() -> Any:
            yield b"one "
            yield b"two"

        return sent()

    def respond(given: dict[str, Any]) -> HttpResponse:
        assert "HTTP_TRANSFER_ENCODING" not in given
        return HttpResponse(given["CONTENT_LENGTH"].encode() + b" " + given["wsgi.input"].read())

    (answer,) = asked(front(respond), request(content=pieces(), headers={"Transfer-Encoding": "chunked"}))
    assert answer.content == b"7 one two"


def test_a_request_becomes_what_pep_3333_says():
    scope = {
        "method": "GET",
        "path": "/ü",
        "query_string": b"q=\xff",
        "http_version": "1.1",
        "scheme": "https",
        "server": ("site", 443),
        "client": ("203.0.113.5", 1234),
        "headers": [(b"content-type", b"text/plain"), (b"x-a", b"1"), (b"x-a", b"2"), (b"x_a", b"3")],
    }
    given = environ(scope, b"")
    assert given["PATH_INFO"].encode("latin-1").decode() == "/ü"
    assert (given["QUERY_STRING"], given["CONTENT_TYPE"], given["HTTP_X_A"]) == ("q=ÿ", "text/plain", "1,2")
    assert (given["REMOTE_ADDR"], given["SERVER_PORT"], given["wsgi.url_scheme"]) == ("203.0.113.5", "443", "https")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Nothing is answered before it is set."""
    opened = threading.Event()
    yield opened
    opened.set()


def test_more_than_can_wait_are_told_to_come_back(gate: threading.Event, monkeypatch):
    monkeypatch.setattr(bridge, "MOST_WAITING", 2)

    def respond(given: dict[str, Any]) -> HttpResponse:
        gate.wait(60)
        return HttpResponse("ok")

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(front(respond))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport) as client:
            tasks = [asyncio.create_task(client.send(request())) for _ in range(bridge.THREADS + 4)]
            refused, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            assert {task.result().status_code for task in refused} == {503}
            gate.set()
            return await asyncio.gather(*tasks)

    answers = asyncio.run(ask())
    assert sorted(answer.status_code for answer in answers) == [200] * (bridge.THREADS + 2) + [503] * 2
    assert {answer.headers.get("retry-after") for answer in answers} == {None, "2"}


@pytest.mark.parametrize(("held", "status"), [(bridge.THREADS - 1, 200), (bridge.THREADS, 503)])
def test_a_site_is_not_ready_while_all_of_its_threads_are_held(
    gate: threading.Event, monkeypatch, db, held: int, status: int
):
    monkeypatch.setattr(health, "TURN_SECONDS", 0.2)
    monkeypatch.setattr(health, "KNOWN_SECONDS", 0.0)
    monkeypatch.setattr(application, "problem", lambda: None)
    working = threading.Semaphore(0)

    def respond(given: dict[str, Any]) -> HttpResponse:
        working.release()
        gate.wait(60)
        return HttpResponse("ok")

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(front(respond))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport) as client:
            tasks = [asyncio.create_task(client.send(request())) for _ in range(held)]
            for _ in tasks:
                await asyncio.to_thread(working.acquire, timeout=60)
            answers = [await client.send(request(path)) for path in ("/readyz", "/healthz")]
            gate.set()
            await asyncio.gather(*tasks)
            return [*answers, await client.send(request("/readyz"))]

    during, alive, afterwards = asyncio.run(ask())
    assert (during.status_code, alive.status_code, afterwards.status_code) == (status, 200, 200)
    assert during.text.startswith("ok" if status == 200 else "no thread was free for ")


def test_who_leaves_while_waiting_for_a_thread_is_not_worked_for(gate: threading.Event):
    worked: list[str] = []

    def respond(given: dict[str, Any]) -> HttpResponse:
        gate.wait(60)
        worked.append(given["PATH_INFO"])
        return HttpResponse("ok")

    async def ask() -> None:
        application = front(respond)
        scope = {"type": "http", "method": "GET", "query_string": b"", "http_version": "1.1", "headers": []}

        async def gone() -> Any:
            return {"type": "http.disconnect"}

        async def stays() -> Any:
            await asyncio.sleep(30)

        async def ignored(message: Any) -> None:
            pass

        busy = [
            asyncio.create_task(application({**scope, "path": "/busy"}, stays, ignored)) for _ in range(bridge.THREADS)
        ]
        await asyncio.sleep(0)
        await application({**scope, "path": "/gone"}, gone, ignored)
        gate.set()
        await asyncio.gather(*busy)

    asyncio.run(ask())
    assert worked == ["/busy"] * bridge.THREADS
