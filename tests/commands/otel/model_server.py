"""What stands in for a provider's model: asks for the first tool it is offered, and answers once it has a
result. It thinks, and breaks off in mid-stream, where the question says so."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

ANSWER = "It arrives tomorrow."
USAGE = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}


@contextmanager
def model_server() -> Iterator[str]:
    """The base URL of an OpenAI-compatible server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.numbers = count(1)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = next(self.server.numbers)
        if asked.get("stream"):
            pieces = [_answer(number, asked, delta=delta, finish=None if delta else "stop") for delta in _words(asked)]
            pieces += [{"error": {"message": "out of memory"}}] if "error" in _question(asked) else []
            lines = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces)
            self._send("text/event-stream", lines if "Break" in _question(asked) else f"{lines}data: [DONE]\n\n")
        else:
            self._send("application/json", json.dumps(_answer(number, asked, message=_message(number, asked))))

    def _send(self, media_type: str, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _question(asked: dict[str, Any]) -> str:
    return [message["content"] for message in asked["messages"] if message["role"] == "user"][-1]


def _words(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of a stream; an empty piece ends it."""
    begin = [{"role": "assistant", **_thoughts(asked)}, {"content": "It arrives "}]
    return begin if "Break" in _question(asked) else [*begin, {"content": "tomorrow."}, {}]


def _thoughts(asked: dict[str, Any]) -> dict[str, Any]:
    return {"reasoning_content": "hm"} if "Think" in _question(asked) else {}


def _answer(number: int, asked: dict[str, Any], finish: str | None = "stop", **choice: Any) -> dict[str, Any]:
    kind = "chat.completion.chunk" if "delta" in choice else "chat.completion"
    choices = [{"index": 0, "finish_reason": finish, **choice}]
    return {
        "id": f"chatcmpl-{number}",
        "object": kind,
        "created": 1,
        "model": asked["model"],
        "choices": choices,
        "usage": USAGE,
    }


def _message(number: int, asked: dict[str, Any]) -> dict[str, Any]:
    offered, known = asked.get("tools"), {message["role"] for message in asked["messages"]} & {"tool", "function"}
    if not offered or known:
        return {"role": "assistant", "content": ANSWER, **_thoughts(asked)}
    function = {"name": offered[0]["function"]["name"], "arguments": '{"number": "4711"}'}
    if "of old" in _question(asked):
        return {"role": "assistant", "content": None, "function_call": function}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}
