"""A model server that does what the last message says, up to `` # ``; its answers name the model that was asked for."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

STREAMS = Path(__file__).with_name("streams")
ODD_CHOICES: dict[str, dict[str, Any]] = {
    "answer in JSON": {"message": {"role": "assistant", "content": '{"number": "4711"}'}, "finish_reason": "stop"},
    "fail with 200": {"message": {"content": "half"}, "finish_reason": "error", "error": {"message": "died"}},
    "answer in parts": {
        "message": {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Let me look."}],
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "weather", "arguments": {"a": 1}}}],
        },
        "finish_reason": "tool_calls",
    },
}
USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
CALL = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "track", "arguments": '{"number": "4711"}'},
}


@dataclass
class UpstreamDouble:
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=list)
    """The headers of each."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """A stream was not read to its end."""
    left: int = 0
    """Requests whose client went away."""
    script: dict[str, dict[str, str]] = field(default_factory=dict)
    """By question: what each model streams as its answer."""

    @property
    def last(self) -> dict[str, Any]:
        return self.bodies[-1]


@contextmanager
def upstream_double() -> Iterator[UpstreamDouble]:
    double = UpstreamDouble()

    async def complete(request: Request) -> Response:
        body = await request.json()
        double.bodies.append(body)
        double.heads.append(dict(request.headers))
        content = body["messages"][-1]["content"]
        order = content.partition(" # ")[0] if isinstance(content, str) else ""
        if order.startswith("status "):
            error = {"error": {"message": "too long", "type": "bad", "param": "messages", "code": "context"}}
            return JSONResponse(error, int(order.split()[1]), {"Retry-After": "7"})
        if order == "fail the second" and body["seed"] == 2:
            return JSONResponse({"error": {"message": "out of memory"}}, 500)
        if order == "wait":
            await _wait(double, request)
        if order == "be silent":
            await asyncio.sleep(3)
        if order.startswith("play "):
            return FileResponse(STREAMS / f"{order.split()[1]}.sse", media_type="text/event-stream")
        if order in ODD_CHOICES:
            return JSONResponse({**_completion(body, order), "choices": [{"index": 0, **ODD_CHOICES[order]}]})
        if body.get("stream"):
            return StreamingResponse(_stream(double, body, order), media_type="text/event-stream")
        if order == "talk nonsense":
            return Response("<html>", media_type="text/html")
        return JSONResponse(_completion(body, order))

    async def embed(request: Request) -> Response:
        """Vectors of each text's length, the last one first; too few where a text says so."""
        body = await request.json()
        double.bodies.append(body)
        if "too long" in body["input"]:
            return JSONResponse({"error": {"message": "too long", "type": "bad", "code": "context"}}, 400)
        rows = [{"index": at, "embedding": [len(text), 0.5]} for at, text in enumerate(body["input"])]
        data = rows[:0:-1] if "too few" in body["input"] else rows[::-1]
        return JSONResponse({"object": "list", "data": data, "usage": USAGE})

    routes = {"/v1/chat/completions": complete, "/v1/embeddings": embed}
    app = Starlette(routes=[Route(path, view, methods=["POST"]) for path, view in routes.items()])
    with running(app) as double.url:
        yield double


@contextmanager
def running(app: Any) -> Iterator[str]:
    """The address of an ASGI application that is served in a thread."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(60)


async def _wait(double: UpstreamDouble, request: Request) -> None:
    """Until the client goes away."""
    while not await request.is_disconnected():
        await asyncio.sleep(0.02)
    double.left += 1


def _completion(body: dict[str, Any], order: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": f"{body['model']} says hello"}
    if order == "say more each time":
        message["content"] = "word " * body["seed"]
    if order == "call a tool":
        message |= {"content": None, "tool_calls": [{name: CALL[name] for name in ("id", "type", "function")}]}
    if order == "call a function":
        message |= {"content": None, "function_call": CALL["function"]}
    if order == "call a custom tool":
        custom = {"id": "call_1", "type": "custom", "custom": {"name": "track", "input": "4711"}}
        message |= {"content": None, "tool_calls": [custom]}
    choices = [
        {
            "index": index,
            "message": {**message, "content": message["content"] and f"{message['content']} {index}"},
            "finish_reason": "stop",
        }
        for index in range(body.get("n", 1))
    ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": choices,
        "usage": USAGE,
    }


def _chunk(body: dict[str, Any], delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": body["model"],
            "choices": [choice],
            "usage": None,
        }
    )


def _event(document: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(document, ensure_ascii=False)}\n\n".encode()


async def _stream(double: UpstreamDouble, body: dict[str, Any], order: str) -> AsyncIterator[bytes]:
    try:
        yield b": here\n\n"
        yield _chunk(body, {"role": "assistant", "content": ""})
        async for piece in _pieces(double, body, order):
            yield piece
    except (asyncio.CancelledError, GeneratorExit):
        double.cancelled.set()
        raise


async def _pieces(double: UpstreamDouble, body: dict[str, Any], order: str) -> AsyncIterator[bytes]:
    if order in double.script:
        for word in double.script[order][body["model"]].split(" "):
            yield _chunk(body, {"content": f"{word} "})
    elif order == "call a tool":
        head = {**CALL, "function": {"name": "track", "arguments": ""}}
        yield _chunk(body, {"tool_calls": [head]})
        for piece in ('{"number": ', '"4711"}'):
            yield _chunk(body, {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    elif order == "call a function":
        for piece in ({"name": "track", "arguments": '{"number": '}, {"arguments": '"4711"}'}):
            yield _chunk(body, {"function_call": piece})
    else:
        yield _chunk(body, {"reasoning_content": "hm"})
        for word in (body["model"], " says", " hel", "lo\u2028\x85."):
            yield _chunk(body, {"content": word})
            await asyncio.sleep(0.2 if order == "talk slowly" else 0)
    if order == "break off":
        yield _event({"error": {"message": "out of memory"}})
        return
    if order == "end early":
        return
    if order == "fall silent":
        await asyncio.sleep(3)
    while order == "talk for ever":
        yield _chunk(body, {"content": " more"})
        await asyncio.sleep(0.05)
    ends = {"call a tool": "tool_calls", "talk too long": "length"}
    yield _chunk(body, {}, ends.get(order, "stop"))
    if body.get("stream_options", {}).get("include_usage"):
        yield _event(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": body["model"],
                "choices": [],
                "usage": USAGE,
            }
        )
    yield b"data: [DONE]\n\n"
