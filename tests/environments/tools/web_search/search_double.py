"""An HTTP server that answers as the providers document it, and misbehaves when it is told to."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

KEY = "key-only-for-tests"
TOWER = ("Eiffel Tower", "https://tower.example/", "It is 330 metres tall.")
RIVER = ("Seine", "https://river.example/", "The Seine flows through Paris.")


class Request(NamedTuple):
    method: str
    path: str
    params: dict[str, Any]
    headers: dict[str, str]


class Reply(NamedTuple):
    status: int
    body: Any = None
    """Bytes as they are, anything else as JSON."""
    headers: dict[str, str] = {}


def tavily(request: Request) -> Reply:
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        return Reply(401, {"detail": {"error": "Unauthorized: missing or invalid API key."}})
    if request.method != "POST" or not isinstance(request.params.get("query"), str):
        return Reply(400, {"detail": {"error": "Query is missing."}})
    found = [{"title": t, "url": u, "content": c, "score": 0.9, "raw_content": None} for t, u, c in (TOWER, RIVER)]
    answer = "It is 330 m." if request.params.get("include_answer") else None
    shown = found[: request.params["max_results"]]
    return Reply(200, {"query": request.params["query"], "answer": answer, "images": [], "results": shown})


def serper(request: Request) -> Reply:
    if request.headers.get("X-API-KEY") != KEY:
        return Reply(403, {"message": "Unauthorized. Sign up for a free account.", "statusCode": 403})
    if request.method != "POST" or not request.params.get("q"):
        return Reply(400, {"message": "Missing query parameter", "statusCode": 400})
    found = [{"title": t, "link": u, "snippet": s, "position": 1} for t, u, s in (TOWER, RIVER)]
    box = {"title": "Eiffel Tower / Height", "answer": "330 m", "link": "https://box.example/"}
    return Reply(200, {"searchParameters": request.params, "answerBox": box, "organic": found})


def bing(request: Request) -> Reply:
    if request.headers.get("Ocp-Apim-Subscription-Key") != KEY:
        return Reply(401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key."}})
    if request.method != "GET" or "q" not in request.params:
        return Reply(400, {"_type": "ErrorResponse", "errors": [{"code": "InvalidRequest", "parameter": "q"}]})
    if request.params["q"] == ["nothing at all"]:
        return Reply(200, {"_type": "SearchResponse", "queryContext": {"originalQuery": "nothing at all"}})
    found = [{"id": "#0", "name": t, "url": u, "snippet": s, "isNavigational": False} for t, u, s in (TOWER, RIVER)]
    return Reply(200, {"_type": "SearchResponse", "webPages": {"totalEstimatedMatches": 2, "value": found}})


def searxng(request: Request) -> Reply:
    if request.params.get("format") != ["json"]:
        return Reply(200, b"<!doctype html><title>search</title>")
    found = [{"title": t, "url": u, "content": s, "engine": "x"} for t, u, s in (TOWER, RIVER)]
    return Reply(200, {"query": request.params["q"][0], "results": found, "infoboxes": []})


PROVIDERS: dict[str, Callable[[Request], Reply]] = {
    "/tavily": tavily,
    "/serper": serper,
    "/bing": bing,
    "/searxng": searxng,
}


class SearchDouble:
    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.script: list[Reply | str] = []
        """What it does with its next requests: answers so, or hangs ("hang"), drips ("drip") or hangs up ("close")."""
        self.over = threading.Event()
        self.url = ""

    def answer(self, request: Request) -> Reply | str:
        self.requests.append(request)
        return self.script.pop(0) if self.script else PROVIDERS[request.path](request)

    def start(self) -> ThreadingHTTPServer:
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.respond(parse_qs(urlsplit(self.path).query))

            def do_POST(self) -> None:
                self.respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def respond(self, params: dict[str, Any]) -> None:
                asked = Request(self.command, urlsplit(self.path).path, params, dict(self.headers))
                match double.answer(asked):
                    case "hang":
                        double.over.wait(60)
                    case "drip":
                        self.drip()
                    case Reply() as reply:
                        self.send(reply)

            def drip(self) -> None:
                self.send_response(200)
                self.end_headers()
                while not double.over.wait(0.02):
                    try:
                        self.wfile.write(b" ")
                    except OSError:
                        return

            def send(self, reply: Reply) -> None:
                content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                try:
                    self.wfile.write(content)
                except OSError:
                    return

            def log_message(self, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server


@contextmanager
def search_double() -> Iterator[SearchDouble]:
    double = SearchDouble()
    server = double.start()
    try:
        yield double
    finally:
        double.over.set()
        server.shutdown()
        server.server_close()
