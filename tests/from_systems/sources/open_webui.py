"""What stands in for Open WebUI: its two routes, with the statuses and bodies of version 0.12."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

from tests.collect.importers.test_openwebui_feedback import feedback

NOON = 1769947200
KEY = "sk-an-administrator"


def thumb(number: int = 1, rating: int = 1, at: float = 0, **more: Any) -> dict[str, Any]:
    """A row whose answer has an id of its own; ``at``: seconds after NOON."""
    row = feedback(rating=rating, comment="", reason="", tags=[])
    messages = row["snapshot"]["chat"]["chat"]["history"]["messages"]
    messages[f"answer-{number}"] = {**messages.pop("m2"), "id": f"answer-{number}"}
    row["meta"]["message_id"] = f"answer-{number}"
    return {**row, "id": str(UUID(int=number)), "created_at": NOON + at, "updated_at": NOON + at, **more}


class OpenWebUI:
    url = ""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.status = 200
        self.instead: bytes | None = None
        self.now = NOON + 1000

    def give(self, *rows: dict[str, Any]) -> None:
        self.rows |= {row["id"]: row for row in rows}

    def answer(self, path: str, key: str) -> tuple[int, bytes]:
        self.asked.append(path)
        if self.instead is not None or self.status != 200:
            return self.status, self.instead or b'{"detail":"no"}'
        if key != f"Bearer {KEY}":
            return 401, b'{"detail":"Your session has expired or the token is invalid. Please sign in again."}'
        if path == "/api/v1/evaluations/feedbacks/all/ids":
            names = ("id", "user_id", "created_at", "updated_at")
            ids = [{name: row[name] for name in names} for row in self.rows.values()]
            return 200, json.dumps(sorted(ids, key=lambda row: -row["updated_at"])).encode()
        row = self.rows.get(path.removeprefix("/api/v1/evaluations/feedback/"))
        return (200, json.dumps(row).encode()) if row else (404, b'{"detail":"not found"}')

    @property
    def fetched(self) -> list[int]:
        """The numbers of the rows that were asked for since this was read last."""
        numbers = [int(UUID(path.rpartition("/")[2])) for path in self.asked if "/feedback/" in path]
        self.asked.clear()
        return numbers


@contextmanager
def open_webui() -> Iterator[OpenWebUI]:
    double = OpenWebUI()
    with serving(double):
        yield double


@contextmanager
def serving(double: Any) -> Iterator[None]:
    """Answers with what ``double.answer`` says of a path and a key, at the time of ``double.now``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = double.answer(self.path, self.headers.get("Authorization", ""))
            self.send_response_only(status)
            self.send_header("Date", formatdate(double.now, usegmt=True))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    double.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
