"""Two small web servers, hence two origins: somebody's page, and the feedback endpoints that its widget talks to."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from django.conf import settings

SCRIPTS = Path(settings.BASE_DIR) / "static" / "rl"


class Api(ThreadingHTTPServer):
    """The two feedback endpoints as the documentation tells them: ``requests`` in, ``ratings`` kept."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ApiHandler)
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.ratings: dict[tuple[str, str], dict[str, Any]] = {}
        self.answer_with = 0
        """A status that every request is answered with, or 0."""
        self.choices: list[str] = []
        """What a widget may offer to choose among."""
        self.may_rate = True
        """Of the page: whether some key names its origin."""
        self.answers = threading.Event()
        """While it is not set, ratings come in and wait for their answer."""
        self.answers.set()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, body, _ in self.requests]

    def take(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        rating = body["trace"], body["rater"]
        if self.answer_with:
            return self.answer_with, {"title": "No", "status": self.answer_with, "detail": "the key was revoked"}
        if path.endswith("/retract/"):
            return 200, {"retracted": self.ratings.pop(rating, None) is not None}
        status = 200 if rating in self.ratings else 201
        self.ratings[rating] = body
        return status, {"id": len(self.requests), "value": body.get("value")}


class QuietHandler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


class ApiHandler(QuietHandler):
    server: Api

    def allow(self) -> dict[str, str]:
        if not self.server.may_rate and self.command in ("OPTIONS", "POST"):
            return {}
        return {
            "Access_Control_Allow_Origin": self.headers.get("Origin", ""),
            "Access_Control_Allow_Headers": "authorization, content-type",
        }

    def do_OPTIONS(self) -> None:
        self.reply(200, b"", **self.allow())

    def do_GET(self) -> None:
        if "/choices/?" in self.path:
            document = json.dumps({"values": self.server.choices}).encode()
            self.reply(200, document, Content_Type="application/json", **self.allow())
            return
        if self.path.endswith("/origin/"):
            document = json.dumps({"may_rate": self.server.may_rate}).encode()
            self.reply(200, document, Content_Type="application/json", Access_Control_Allow_Origin="*")
            return
        script = (SCRIPTS / Path(self.path).name).read_bytes()
        self.reply(200, script, Content_Type="text/javascript", Set_Cookie="session=secret", **self.allow())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body, dict(self.headers)))
        self.server.answers.wait()
        status, answer = self.server.take(self.path, body)
        self.reply(status, json.dumps(answer).encode(), Content_Type="application/json", **self.allow())


class Site(ThreadingHTTPServer):
    """Somebody's page with ``body`` in it; its widgets rate at ``api``, an origin."""

    daemon_threads = True

    def __init__(self, api: str, script: str = "/ratchet-feedback.js") -> None:
        super().__init__(("127.0.0.1", 0), SiteHandler)
        self.api, self.script, self.body, self.posted, self.policy = api, script, "", b"", ""

    @property
    def origin(self) -> str:
        return f"http://localhost:{self.server_port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/"


class SiteHandler(QuietHandler):
    server: Site

    def do_GET(self) -> None:
        api = self.server.api
        html = f"""<!doctype html><html lang="en"><title>Shop</title>
            <script type="module" src="{api}{self.server.script}"></script>{self.server.body}"""
        policy = f"default-src 'none'; script-src {api}; style-src 'none'; connect-src {api}; {self.server.policy}"
        headers = {"Content_Type": "text/html; charset=utf-8", "Content_Security_Policy": policy}
        self.reply(200, html.encode(), **headers)

    def do_POST(self) -> None:
        self.server.posted = self.rfile.read(int(self.headers["Content-Length"]))
        policy = "default-src 'none'"
        self.reply(
            200, b"<!doctype html><title>Posted</title>", Content_Type="text/html", Content_Security_Policy=policy
        )


def serve(server: ThreadingHTTPServer) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
