"""An HTTP server that keeps traces as Ratchet does, and misbehaves when it is told to."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, Any, dict[str, str]]
"""Status, body (bytes as they are, anything else as JSON), headers."""


class RatchetDouble:
    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.batches: list[list[dict[str, Any]]] = []
        self.authorizations: set[str] = set()
        self.paths: set[str] = set()
        self.script: list[Callable[[list[dict[str, Any]]], Reply | None]] = []
        """What it answers to its next requests, in order; None: as usual."""
        self.hang = threading.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def next_replies(self, *replies: Reply) -> None:
        self.script += [lambda items, reply=reply: reply for reply in replies]

    def answer(self, items: list[dict[str, Any]]) -> Reply:
        self.batches.append(items)
        if self.script and (reply := self.script.pop(0)(items)):
            return reply
        results = []
        for item in items:
            known = self.stored.setdefault(item["external_id"], item) is not item
            results.append({"status": 200 if known else 201, "id": "x", "external_id": item["external_id"]})
        return 207, {"results": results}, {}

    def start(self, port: int = 0) -> None:
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                double.authorizations.add(self.headers["Authorization"])
                double.paths.add(self.path)
                content = self.rfile.read(int(self.headers["Content-Length"]))
                if double.hang.is_set():
                    threading.Event().wait(60)
                try:
                    status, body, headers = double.answer(json.loads(content))
                except ValueError:
                    status, body, headers = problem(400, "malformed JSON")
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def ratchet_double() -> Iterator[RatchetDouble]:
    double = RatchetDouble()
    double.start()
    try:
        yield double
    finally:
        double.stop()


def problem(status: int, detail: str, **headers: str) -> Reply:
    document = {"type": "urn:ratchet:problem:x", "title": "Something", "status": status, "detail": detail}
    return status, document, {name.replace("_", "-"): value for name, value in headers.items()}
