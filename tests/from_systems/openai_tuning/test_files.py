"""``/v1/files`` by Django's test client."""

import errno
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from rl.from_systems.openai_tuning import stored_files
from rl.models import Agent, ApiKey
from rl.models.tuning import UploadedFile
from tests.from_systems.openai_tuning.callers import CHATS, TuningCaller, caller, error_of, on_disk
from tests.web.api.conftest import key_for

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def test_a_file_comes_back_as_it_was_sent(tuner: TuningCaller, data_dir: Path):
    sent = tuner.sent()
    assert {name: sent[name] for name in ("object", "bytes", "filename", "purpose", "status", "expires_at")} == {
        "object": "file",
        "bytes": len(CHATS),
        "filename": "chats.jsonl",
        "purpose": "fine-tune",
        "status": "processed",
        "expires_at": None,
    }
    assert tuner.call("get", f"files/{sent['id']}").json() == sent
    content: Any = tuner.call("get", f"files/{sent['id']}/content")
    assert b"".join(content.streaming_content) == CHATS
    assert (data_dir / "files" / sent["id"]).stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_deleted_is_gone_from_the_disk_too(tuner: TuningCaller, data_dir: Path):
    name = tuner.sent()["id"]
    assert tuner.call("delete", f"files/{name}").json() == {"id": name, "object": "file", "deleted": True}
    assert on_disk(data_dir) == set()
    for method, path in (("get", ""), ("get", "/content"), ("delete", "")):
        error = error_of(tuner.call(method, f"files/{name}{path}"), 404)
        assert (error["param"], error["type"]) == ("id", "invalid_request_error")


def test_files_are_listed_by_purpose_and_page_by_page_in_either_order(tuner: TuningCaller):
    tuned = [tuner.sent()["id"] for _ in range(3)]
    other = tuner.sent(b"\x00anything", purpose="user_data")["id"]

    def listed(**query: Any) -> list[str]:
        return [row["id"] for row in tuner.call("get", "files", **query).json()["data"]]

    assert listed() == [other, *reversed(tuned)]
    assert listed(purpose="fine-tune", order="asc") == tuned
    assert listed(limit=2, after=other) == [tuned[2], tuned[1]]
    assert listed(purpose="\x00") == []
    for wrong in ({"limit": 10_001}, {"order": "up"}, {"after": "file-1"}, {"after": "\x00"}):
        error_of(tuner.call("get", "files", **wrong), 400)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"purpose": "batch"}, "purpose"),
        ({"purpose": "assistants"}, "purpose"),
        ({"purpose": "fine-tune-results"}, "purpose"),
        ({"purpose": ""}, "purpose"),
        ({"expires_after[anchor]": "today", "expires_after[seconds]": "3600"}, "expires_after[anchor]"),
        ({"expires_after[seconds]": "3600"}, "expires_after[anchor]"),
        ({"expires_after[anchor]": "created_at"}, "expires_after[seconds]"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "3599"}, "expires_after[seconds]"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "2592001"}, "expires_after[seconds]"),
        ({"purpos": "evals"}, "purpos"),
    ],
)
def test_a_form_that_says_something_else_is_refused_by_field(tuner: TuningCaller, data_dir: Path, fields, param: str):
    assert error_of(tuner.send(**fields), 400)["param"] == param
    assert (on_disk(data_dir), UploadedFile.objects.count()) == (set(), 0)


def test_lines_of_another_form_are_refused_by_number_and_nothing_stays(tuner: TuningCaller, data_dir: Path):
    error = error_of(tuner.send(CHATS + b'{"prompt": "a"}\n'), 400)
    assert "Line 11: missing key 'messages'" in error["message"]
    assert (error["code"], error["param"]) == ("invalid_file_format", "file")
    assert list((data_dir / "files").iterdir()) == []
    assert tuner.send(b'{"prompt": "a"}\n', purpose="evals").status_code == 200


def test_a_form_has_one_file_that_says_something(tuner: TuningCaller):
    file, other = SimpleUploadedFile("a", CHATS), SimpleUploadedFile("b", CHATS)
    for body in (
        {"purpose": "fine-tune", "file": file, "other": other},
        {"purpose": "fine-tune", "data": SimpleUploadedFile("a", CHATS)},
        {"purpose": "fine-tune", "file": SimpleUploadedFile("a", b"")},
    ):
        error_of(tuner.call("post", "files", body), 400)
    error_of(tuner.call("post", "files", {"purpose": "fine-tune"}), 415)
    cut_off = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nabc'
    headers = {"authorization": f"Bearer {tuner.key}"}
    answer = Client().post("/v1/files", cut_off, "multipart/form-data; boundary=x", headers=headers)
    error_of(answer, 400)  # type: ignore[arg-type]
    assert not UploadedFile.objects.exists()


def test_a_file_larger_than_may_be_is_refused_as_it_comes(tuner: TuningCaller, data_dir: Path, settings):
    settings.MAX_FILE_BYTES = len(CHATS)
    assert tuner.send().status_code == 200
    error = error_of(tuner.send(CHATS + b"\n"), 413)
    assert (error["param"], f"{len(CHATS)} bytes" in error["message"]) == ("file", True)
    assert len(on_disk(data_dir)) == 1


def test_a_full_disk_is_507_and_leaves_nothing(tuner: TuningCaller, data_dir: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("rl.base.files._seal", full)
    error = error_of(tuner.send(), 507)
    assert (error["type"], error["code"]) == ("server_error", "disk_full")
    assert (list((data_dir / "files").iterdir()), UploadedFile.objects.count()) == ([], 0)


def test_bytes_whose_row_cannot_be_written_go_again(
    tuner: TuningCaller, data_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no row today")

    monkeypatch.setattr(UploadedFile, "save", broken)
    with pytest.raises(RuntimeError):
        tuner.send()
    assert on_disk(data_dir) == set()


def test_a_file_that_expired_is_not_there_and_its_bytes_go(tuner: TuningCaller, data_dir: Path):
    sent = tuner.sent(**{"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"})
    assert sent["expires_at"] - sent["created_at"] == 3600
    assert stored_files.sweep() == 0
    UploadedFile.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    error_of(tuner.call("get", f"files/{sent['id']}"), 404)
    error_of(tuner.call("delete", f"files/{sent['id']}"), 404)
    assert tuner.call("get", "files").json()["data"] == []
    assert stored_files.sweep() == 1
    assert not UploadedFile.objects.exists()


# --- who may -----------------------------------------------------------------------------------------------------------


def test_a_key_sees_the_files_of_its_own_agent_alone(tuner: TuningCaller, agent: Agent):
    own, other = caller(agent), caller(Agent.objects.create(name="other"))
    name = own.sent()["id"]
    assert tuner.call("get", f"files/{name}").status_code == 200
    for method, path in (("get", ""), ("get", "/content"), ("delete", "")):
        error_of(other.call(method, f"files/{name}{path}"), 404)
    assert other.call("get", "files").json()["data"] == []
    assert [row["id"] for row in own.call("get", "files").json()["data"]] == [name]


def test_each_call_needs_its_scope_and_a_secret_key(tuner: TuningCaller, agent: Agent):
    name = tuner.sent()["id"]
    reader, sender = caller(scopes=["read"]), caller(scopes=["ingest", "train"])
    assert "ingest" in error_of(reader.send(), 403)["message"]
    error_of(reader.call("delete", f"files/{name}"), 403)
    for path in ("", f"/{name}", f"/{name}/content"):
        assert reader.call("get", f"files{path}").status_code == 200
        assert error_of(sender.call("get", f"files{path}"), 403)["type"] == "permission_error"
    error_of(TuningCaller(key_for(agent, ApiKey.Kind.PUBLISHABLE)).send(), 403)
    assert error_of(TuningCaller("sk_nobody").send(), 401)["type"] == "authentication_error"
