"""Requests that bring files: what is kept of them, where, and from whom."""

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from django.http import HttpResponse

from rl.models import Agent, ApiKey
from rl.web.front import application, uploads
from rl.web.front.limits import Memory
from tests.commands.site import Site
from tests.web.front.server import Server, served
from tests.web.front.test_bridge import asked, front, request

MEGABYTE = 2**20


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> None:
    monkeypatch.setattr(application, "may_send", lambda scope: True)


def length(given: dict[str, Any]) -> HttpResponse:
    return HttpResponse(f"{given['CONTENT_LENGTH']} {len(given['wsgi.input'].read())}")


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(
    ("method", "path", "most"),
    [
        ("POST", "/v1/files", 5 * MEGABYTE),
        ("POST", "/v1/files/", 5 * MEGABYTE),
        ("POST", "/v1/uploads/upload_1/parts", 3 * MEGABYTE),
        ("PUT", "/v1/files", None),
        ("POST", "/v1/uploads", None),
        ("POST", "/v1/uploads/upload_1/complete", None),
        ("POST", "/v1/files/file-1", None),
        ("POST", "/api/v1/traces/", None),
    ],
)
def test_addresses_of_files_alone_take_large_bodies(settings, monkeypatch, method: str, path: str, most: int | None):
    settings.MAX_FILE_BYTES = 5 * MEGABYTE
    monkeypatch.setattr(uploads, "PART_BYTES", 3 * MEGABYTE)
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE if most is None else most + uploads.FORM_BYTES
    for size, status in ((limit, 200), (limit + 1, 413)):
        sent = httpx.Request(method, f"http://testserver{path}", content=b"x" * size)
        (answer,) = asked(front(length), sent)
        assert answer.status_code == status
        assert status != 200 or answer.text == f"{size} {size}"


@pytest.mark.usefixtures("trusted")
def test_what_goes_to_the_disk_takes_no_memory_of_other_requests(monkeypatch: pytest.MonkeyPatch):
    memory, held = Memory(), []
    monkeypatch.setattr(application, "Memory", lambda: memory)

    def note(given: dict[str, Any]) -> HttpResponse:
        held.append(memory._held)
        return HttpResponse()

    for size in (1000, 20 * MEGABYTE):
        asked(front(note), request("/v1/files", content=b"x" * size))
    assert held == [1000, uploads.IN_MEMORY]


@pytest.mark.usefixtures("trusted")
def test_what_is_received_has_no_name_that_a_killed_process_could_leave(data_dir: Path):
    def names(given: dict[str, Any]) -> HttpResponse:
        on_disk = given["wsgi.input"].fileno()
        return HttpResponse(f"{os.fstat(on_disk).st_dev == data_dir.stat().st_dev} {list(data_dir.iterdir())}")

    (answer,) = asked(front(names), request("/v1/files", content=b"x" * MEGABYTE))
    assert answer.text == "True []"


@pytest.mark.usefixtures("trusted")
def test_a_full_disk_is_told_in_the_words_of_openai(monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", full)
    (answer,) = asked(front(length), request("/v1/files", content=b"x" * MEGABYTE))
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "disk_full")
    assert answer.headers["retry-after"] == "30"


@pytest.mark.django_db(transaction=True)
@pytest.mark.database
def test_a_body_of_those_who_may_send_no_file_is_not_kept(agent: Agent, publishable_key: str, data_dir: Path):
    keys = [
        ApiKey.create(name=name, kind=ApiKey.Kind.SECRET, scopes=[name], agent=agent)[1] for name in ("read", "ingest")
    ]
    for key, kept in (("", 0), ("sk_nobody", 0), (publishable_key, 0), (keys[0], 0), (keys[1], MEGABYTE)):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        (answer,) = asked(front(length), request("/v1/files", content=b"x" * MEGABYTE, headers=headers))
        assert answer.text == f"{kept} {kept}"


@pytest.fixture
def roomy(tmp_path: Path, prepared: tuple[Site, dict[str, Any]]) -> Iterator[Server]:
    with served(
        prepared[0].copy(tmp_path / "data"), prepared[1], DEBUG="0", HTTPS="0", ALLOWED_HOSTS="127.0.0.1"
    ) as found:
        yield found


@pytest.mark.database
@pytest.mark.process
def test_a_large_file_never_lies_in_memory_and_a_stranger_fills_no_disk(roomy: Server, tmp_path: Path):
    size, large = 192 * MEGABYTE, tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(size)
    process = psutil.Process(roomy.process.pid)

    def send(key: dict[str, str]) -> httpx.Response:
        with large.open("rb") as file:
            form = {"purpose": "user_data"}
            return httpx.post(f"{roomy.url}/v1/files", files={"file": file}, data=form, headers=key, timeout=60)

    def peak() -> int:
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    assert send({"Authorization": "Bearer sk_nobody"}).status_code == 401
    before = peak()
    sent = send(roomy.authorization).json()
    assert sent["bytes"] == size
    with httpx.stream("GET", f"{roomy.url}/v1/files/{sent['id']}/content", headers=roomy.authorization) as answer:
        assert sum(map(len, answer.iter_bytes())) == size
    assert peak() - before < size // 3
    assert {path.name for path in (roomy.site.data / "files").iterdir()} == {sent["id"]}
