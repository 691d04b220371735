"""A real ``serve`` process, and connections to it on which nothing is sent in time."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from django.db import connection

from tests.commands.site import MANAGE, Site
from tests.ports import reserve_port
from tests.serving.gateway.conftest import copy_database
from tests.waiting import until

PROGRAM = """
import json
from django.contrib.auth.models import User
from django.core.management import call_command
from rl.models import Agent, ApiKey, Trace, TrainingRun
call_command("migrate", verbosity=0)
User.objects.create_superuser("bob", password="bob-runs-this-place")
agent = Agent.objects.create(name="support-chat")
Trace.objects.create(agent=agent, response="answer", prompt=[{"role": "user", "content": "question"}])
run = TrainingRun.objects.create(agent=agent, method="dpo", state="running")
secret = ApiKey.create(name="all", kind="secret", scopes=["ingest", "read", "train"])[1]
page = ApiKey.create(name="page", kind="publishable", allowed_origins=["https://shop.example"])[1]
print(json.dumps({"secret": secret, "page": page, "run": run.pk}))
"""


@dataclass(frozen=True)
class Server:
    site: Site
    port: int
    known: dict[str, Any]
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return log_of(self.site, self.port).read_text()

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.known['secret']}"}

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self.url + path, timeout=60, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return httpx.post(self.url + path, timeout=60, **options)

    def connect(self, sent: str = "") -> socket.socket:
        """A connection on which so much was sent."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        made.sendall(sent.encode())
        return made


def head(method: str, path: str, *headers: str) -> str:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""])


def read_all(connection: socket.socket) -> bytes:
    """Until the server closes."""
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def connections_of(server: Server) -> int:
    process = psutil.Process(server.process.pid)
    return sum(each.status == psutil.CONN_ESTABLISHED for each in process.net_connections("tcp"))


def prepared_site(folder: Path) -> tuple[Site, dict[str, Any]]:
    site = Site(folder / "data")
    site.data.mkdir()
    if connection.vendor == "sqlite":  # the tests' own, which has no row yet: migrating another takes seconds
        copy_database(Path(connection.settings_dict["NAME"]), site)
    return site, json.loads(site.run("shell", "--no-imports", "-c", PROGRAM).stdout)


def log_of(site: Site, port: int) -> Path:
    """Several serve one site at a time."""
    return site.data / f"serve-{port}.log"


@contextmanager
def served(site: Site, known: dict[str, Any], *options: str, **environment: str) -> Iterator[Server]:
    port = reserve_port()
    with log_of(site, port).open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(MANAGE), "serve", "--port", str(port), *options],
            env=site.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    server = Server(site, port, known, process)
    try:
        until(lambda: answers(server), 60)
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(server: Server) -> bool:
    try:
        return server.get("/healthz").status_code in (200, 400)
    except httpx.TransportError:
        return False
