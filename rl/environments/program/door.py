"""The address that programs speak to: HTTP on this machine alone, a secret in the path for each episode."""

import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from rl.environments.program.openai_chat import (
    CallRefused,
    ChatReply,
    ProgramRequest,
    read_request,
    write_completion,
    write_models,
    write_refusal,
    write_stream,
)

LARGEST_REQUEST = 16 * 2**20
"""Bytes."""
Ask = Callable[[str, ProgramRequest], ChatReply]
"""The answer to a request of the episode with a key; it may take long. Raises CallRefused, also for a key of nobody."""
log = logging.getLogger(__name__)


class Door:
    def __init__(self, ask: Ask) -> None:
        """``ask`` is called in a thread of its own for each request."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.ask = ask
        self._thread = Thread(target=self._server.serve_forever, name="programs", daemon=True)
        self._thread.start()

    def address(self, key: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/{key}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    ask: Ask

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  socketserver's
        """A program that goes away while it is answered is nothing to talk of."""
        log.debug("a program's connection broke", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        if self._path()[1] == "v1/models":
            self._send(200, write_models())
        else:
            self._refuse(CallRefused(f"there is nothing at {self._path()[1]}", "not_found", 404))

    def do_POST(self) -> None:
        key, path = self._path()
        try:
            document = self._document()
            if path != "v1/chat/completions":
                raise CallRefused(f"{path} is not served here: ask for v1/chat/completions", "not_found", 404)
            request = read_request(document)
            reply = self.server.ask(key, request)
        except CallRefused as refusal:
            self._refuse(refusal)
            return
        if request.stream:
            self._stream(write_stream(request, reply))
        else:
            self._send(200, write_completion(request, reply))

    def log_message(self, format: str, *args: Any) -> None:
        """Keys are in the paths: none goes to a log."""

    def _path(self) -> tuple[str, str]:
        key, _, path = self.path.partition("?")[0].lstrip("/").partition("/")
        return key, path.rstrip("/")

    def _document(self) -> Any:
        """Reads the request to its end whatever comes of it: the connection is used again."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST_REQUEST:
            self.close_connection = True
            raise CallRefused(f"a request must have a length of at most {LARGEST_REQUEST // 2**20} MiB", status=413)
        try:
            document = json.loads(self.rfile.read(int(length)))
            json.dumps(document, ensure_ascii=False).encode()  # no half characters, which no tokenizer reads
            return document
        except (ValueError, RecursionError):
            raise CallRefused("the request is not JSON") from None

    def _refuse(self, refusal: CallRefused) -> None:
        self._send(refusal.status, write_refusal(refusal))

    def _send(self, status: int, document: Any) -> None:
        body = json.dumps(document, ensure_ascii=False).encode()
        with suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if status >= 400:
                self.send_header("x-should-retry", "false")  # OpenAI's clients would ask again
            self.end_headers()
            self.wfile.write(body)

    def _stream(self, events: Iterable[bytes]) -> None:
        """Chunked, as its length is not known."""
        with suppress(ConnectionError):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in (*events, b""):
                self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
