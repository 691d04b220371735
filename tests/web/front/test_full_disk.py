"""A real server on a real disk that is full, and has room again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from django.db import connection

from tests.commands.site import MANAGE
from tests.missing import missing
from tests.ports import reserve_port
from tests.waiting import until
from tests.web.front.server import Server, log_of

pytestmark = [pytest.mark.database, pytest.mark.process]


MOUNT = 'mount -t tmpfs -o size=24m tmpfs "$1" && cp -r "$2/." "$1" && shift 2 && exec "$@"'
ALONE = ("unshare", "--map-root-user", "--mount", "sh", "-c")


@pytest.fixture
def small(tmp_path: Path, prepared) -> Iterator[Server]:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL's disk is another one")
    if subprocess.run([*ALONE, "mount -t tmpfs tmpfs /mnt"], capture_output=True).returncode != 0:
        missing("the right to mount a small file system of one's own")
    site, known = prepared[0].copy(tmp_path / "seed"), prepared[1]
    disk, port = tmp_path / "disk", reserve_port()
    disk.mkdir()
    serve = [sys.executable, str(MANAGE), "serve", "--port", str(port)]
    log = log_of(site, port).open("w")
    process = subprocess.Popen(
        [*ALONE, MOUNT, "sh", str(disk), str(site.data), *serve],
        env={**site.environment(), "DATA_DIR": str(disk), "DATABASE_URL": ""},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    found = Server(site, port, known, process)
    try:
        until(lambda: "the site:" in found.log and _answers(found))
        yield found
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def _answers(server: Server) -> bool:
    try:
        return server.get("/readyz").text == "ok\n"
    except httpx.HTTPError:
        return False


def filler(server: Server) -> Path:
    return Path(f"/proc/{server.process.pid}/root{server.site.data.parent / 'disk' / 'filler'}")


def fill(path: Path) -> None:
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_it_is_said_to_be_full_and_goes_on_when_there_is_room(small: Server):
    server = small
    trace = server.get("/api/v1/traces/", headers=server.authorization).json()["results"][0]["id"]

    def rate(rater: str) -> int:
        body = {"trace": trace, "rater": rater, "scale": "thumb", "value": 1, "notes": "x" * 4000}
        answer = server.post("/api/v1/feedback/", json=body, headers=server.authorization)
        if answer.status_code == 507:
            assert answer.headers["content-type"] == "application/problem+json"
            assert int(answer.headers["retry-after"]) > 0
        return answer.status_code

    assert rate("before") == 201
    fill(filler(server))
    answers = [rate(f"during {number}") for number in range(20)]
    assert set(answers) <= {201, 507}
    assert answers[-1] == 507
    until(lambda: "full" in server.get("/readyz").text)
    assert server.get("/readyz").status_code == 503
    assert server.get("/healthz").status_code == 200
    asked = {"model": "support-chat", "messages": [{"role": "user", "content": "hello"}]}
    refused = server.post("/v1/chat/completions", json=asked, headers=server.authorization)
    assert (refused.status_code, refused.json()["error"]["code"]) == (507, "disk_full")
    file = {"file": ("a.bin", b"x" * 2**20)}
    refused = server.post("/v1/files", data={"purpose": "user_data"}, files=file, headers=server.authorization)
    assert (refused.status_code, refused.json()["error"]["code"]) == (507, "disk_full")
    page = server.post("/login/", data={"username": "bob", "password": "wrong"})
    assert page.status_code in (403, 507)
    filler(server).unlink()
    until(lambda: server.get("/readyz").text == "ok\n")
    assert rate("after") == 201
    listed = server.get("/api/v1/feedback/?limit=100", headers=server.authorization).json()["results"]
    kept = {event["rater"].rpartition(":")[2] for event in listed}
    acknowledged = {f"during {number}" for number, answer in enumerate(answers) if answer == 201}
    assert kept >= {"before", "after", *acknowledged}, "one that was refused may be there too: it is sent again"
