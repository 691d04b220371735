"""Servers that are reached by HTTP."""

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.environments.tools import ToolFailed, ToolRegistry
from tests.environments.tools.mcp.conftest import SERVER
from tests.ports import reserve_port
from tests.waiting import until

pytestmark = pytest.mark.process


Make = Callable[..., ToolRegistry]


class Web:
    """The server of server.py, by HTTP."""

    def __init__(self) -> None:
        self.port = reserve_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([*SERVER, str(self.port)], stderr=subprocess.DEVNULL)
        until(self.listens)

    def listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def web() -> Iterator[Web]:
    running = Web()
    yield running
    running.stop()


class Old(BaseHTTPRequestHandler):
    """A server of the protocol's version of 2025, with sessions. Paths of digits are answered with that status."""

    session, asked = 0, []

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked.append((self.path, message.get("method"), dict(self.headers)))
        if self.path != "/mcp":
            self._send(int(self.path[1:]))
        elif message["method"] == "initialize":
            info = {"name": "old", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            self._send(200, message, result)
        elif self.headers["Mcp-Session-Id"] != str(self.session):
            self._send(404)
        elif message["method"] == "tools/list":
            self._send(200, message, {"tools": [{"name": "name", "inputSchema": {"type": "object"}}]})
        elif message["method"] == "tools/call":
            self._send(200, message, {"content": [{"type": "text", "text": f"session {self.session}"}]})
        else:
            self._send(202)

    def do_GET(self) -> None:
        self._send(405)

    do_DELETE = do_GET

    def _send(self, status: int, message: dict[str, Any] | None = None, result: dict[str, Any] | None = None) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() if message else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("Mcp-Session-Id", str(self.session))
        if status == 307:
            self.send_header("Location", f"http://localhost:{self.server.server_port}/mcp")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Its address without a path."""
    monkeypatch.setattr(Old, "session", 1)
    monkeypatch.setattr(Old, "asked", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Old)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def failure(tools: ToolRegistry, name: str) -> str:
    with pytest.raises(ToolFailed) as failed:
        tools.call(name, {})
    return str(failed.value)


def pid(tools: ToolRegistry) -> int:
    return int(json.loads(tools.call("process", {}))["pid"])


def test_tools_are_called_by_http_and_survive_the_servers_end(web: Web, make_tools: Make):
    tools = make_tools(url=web.url, timeout=1)
    assert tools.call("add", {"a": 2, "b": 3}) == "5"
    assert tools.call("picture", {}).endswith("[image, 12 kB, not shown]")
    assert failure(tools, "hang") == "hang did not answer within 1 seconds"
    assert pid(tools) == web.process.pid
    web.stop()
    gone = "the server shop has ended and cannot be used again: it cannot be reached: All connection attempts failed"
    assert failure(tools, "process") == gone
    web.start()
    assert pid(tools) == web.process.pid
    web.stop()
    web.start()
    assert pid(tools) == web.process.pid
    assert failure(tools, "die").startswith("the server shop was lost during the call: it cannot be reached")


def test_a_server_that_forgot_its_session_gets_another(old: str, make_tools: Make):
    tools = make_tools(url=f"{old}/mcp")
    assert tools.call("name", {}) == "session 1"
    Old.session = 2
    assert tools.call("name", {}) == "session 2"


def test_the_secret_goes_to_the_server_and_no_proxy_is_asked(
    old: str, make_tools: Make, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WIKI_TOKEN", "open-sesame")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    make_tools(url=f"{old}/mcp", headers_env={"Authorization": "WIKI_TOKEN"}).call("name", {})
    assert {headers["Authorization"] for _, _, headers in Old.asked} == {"Bearer open-sesame"}


@pytest.mark.parametrize(
    ("path", "told"),
    [("401", "HTTP 401"), ("404", "HTTP 404"), ("500", "HTTP 500"), ("307", "not followed; use that URL")],
)
def test_a_server_that_refuses_is_told_and_redirects_to_other_hosts_are_not_followed(
    old: str, make_tools: Make, path: str, told: str
):
    with pytest.raises(UsageError, match=told):
        make_tools(url=f"{old}/{path}")
    assert {asked for asked, *_ in Old.asked} == {f"/{path}"}


def test_an_address_where_nobody_listens_is_told(make_tools: Make):
    with pytest.raises(UsageError, match="cannot be used: it cannot be reached: All connection attempts failed"):
        make_tools(url="http://127.0.0.1:9/mcp")
