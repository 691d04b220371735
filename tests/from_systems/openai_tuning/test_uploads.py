"""``/v1/uploads`` by Django's test client."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from rl.from_systems.openai_tuning import stored_files, uploads
from rl.models import Agent
from rl.models.tuning import Upload, UploadedFile, UploadPart
from tests.from_systems.openai_tuning.callers import CHATS, TuningCaller, caller, error_of, on_disk
from tests.from_systems.openai_tuning.test_stored_files import made_old

pytestmark = [pytest.mark.django_db, pytest.mark.database]
ABOUT: dict[str, Any] = {
    "bytes": len(CHATS),
    "filename": "chats.jsonl",
    "mime_type": "text/jsonl",
    "purpose": "fine-tune",
}
HALVES = (CHATS[:300], CHATS[300:])


def begun(tuner: TuningCaller, **more: Any) -> str:
    answer = tuner.call("post", "uploads", {**ABOUT, **more})
    assert answer.status_code == 200, answer.content
    name: str = answer.json()["id"]
    return name


def parts_of(tuner: TuningCaller, upload: str) -> list[str]:
    return [tuner.part(upload, half).json()["id"] for half in HALVES]


def complete(tuner: TuningCaller, upload: str, parts: list[str], **more: Any) -> Any:
    return tuner.call("post", f"uploads/{upload}/complete", {"part_ids": parts, **more})


def test_parts_become_a_file_in_the_order_that_is_asked_for(tuner: TuningCaller, data_dir: Path):
    upload = begun(tuner, expires_after={"anchor": "created_at", "seconds": 7200})
    last, first = (tuner.part(upload, half).json()["id"] for half in reversed(HALVES))
    done = complete(tuner, upload, [first, last], md5=hashlib.md5(CHATS).hexdigest()).json()
    assert (done["status"], done["object"], done["bytes"]) == ("completed", "upload", len(CHATS))
    file = done["file"]
    assert (file["bytes"], file["filename"], file["purpose"]) == (len(CHATS), "chats.jsonl", "fine-tune")
    assert file["expires_at"] - file["created_at"] == 7200
    assert (data_dir / "files" / file["id"]).read_bytes() == CHATS
    assert on_disk(data_dir) == {file["id"]}
    assert not UploadPart.objects.exists()
    for again in (complete(tuner, upload, [first, last]), tuner.part(upload, b"more")):
        assert "the upload is completed" in error_of(again, 400)["message"]


@pytest.mark.parametrize("at", ["_join", "check_sent"])
def test_an_upload_that_is_cancelled_while_it_is_completed_becomes_no_file(
    tuner: TuningCaller, data_dir: Path, monkeypatch: pytest.MonkeyPatch, at: str
):
    upload = begun(tuner)
    parts, work = parts_of(tuner, upload), getattr(uploads, at)

    def interrupted(*arguments: Any) -> Any:
        assert tuner.call("post", f"uploads/{upload}/cancel").status_code == 200
        return work(*arguments)

    monkeypatch.setattr(uploads, at, interrupted)
    assert "another call has ended the upload" in error_of(complete(tuner, upload, parts), 400)["message"]
    assert (on_disk(data_dir), UploadedFile.objects.count()) == (set(), 0)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"bytes": 0}, "bytes"),
        ({"bytes": 2**40}, "bytes"),
        ({"bytes": True}, "bytes"),
        ({"filename": ""}, "filename"),
        ({"filename": "a" * 256}, "filename"),
        ({"filename": None}, "filename"),
        ({"mime_type": 1}, "mime_type"),
        ({"purpose": "vision"}, "purpose"),
        ({"expires_after": 3600}, "expires_after"),
        ({"expires_after": {"anchor": "created_at", "seconds": 60}}, "expires_after[seconds]"),
        ({"expires_after": {"anchor": "created_at", "seconds": 3600.5}}, "expires_after[seconds]"),
        ({"size": 1}, "size"),
    ],
)
def test_an_upload_that_says_something_else_is_refused_by_field(tuner: TuningCaller, wrong: Any, param: str):
    assert error_of(tuner.call("post", "uploads", {**ABOUT, **wrong}), 400)["param"] == param
    assert not Upload.objects.exists()


def test_parts_that_are_not_what_was_announced_are_refused_and_may_be_mended(tuner: TuningCaller, data_dir: Path):
    upload, other = begun(tuner), begun(tuner)
    first, last = parts_of(tuner, upload)
    (strange, _) = parts_of(tuner, other)
    for parts, problem in (
        ([first], f"the parts have 300 bytes together, and {len(CHATS)} were announced"),
        ([first, first], "names a part twice"),
        ([first, strange], f"the upload has no part '{strange}'"),
        ([], "part_ids must be a list"),
        ("abc", "part_ids must be a list"),
    ):
        assert problem in error_of(complete(tuner, upload, parts), 400)["message"]  # type: ignore[arg-type]
    assert "MD5" in error_of(complete(tuner, upload, [first, last], md5="0" * 32), 400)["message"]
    assert "Line 1: is not JSON" in error_of(complete(tuner, upload, [last, first]), 400)["message"]
    assert not UploadedFile.objects.exists()
    assert complete(tuner, upload, [first, last]).status_code == 200


def test_what_was_cancelled_or_has_expired_takes_nothing_more(tuner: TuningCaller, data_dir: Path):
    cancelled, expired = begun(tuner), begun(tuner)
    parts = [parts_of(tuner, name) for name in (cancelled, expired)]
    assert tuner.call("post", f"uploads/{cancelled}/cancel").json()["status"] == "cancelled"
    assert len(on_disk(data_dir)) == 2
    Upload.objects.filter(pk=expired).update(expires_at=timezone.now())
    for name, ids, state in ((cancelled, parts[0], "cancelled"), (expired, parts[1], "expired")):
        answers = (complete(tuner, name, ids), tuner.part(name, b"a"), tuner.call("post", f"uploads/{name}/cancel"))
        assert all(f"the upload is {state}" in error_of(answer, 400)["message"] for answer in answers)
    stored_files.sweep()
    made_old(data_dir / "files" / expired)
    stored_files.sweep()
    assert (on_disk(data_dir), Upload.objects.count()) == (set(), 1)


def test_parts_have_limits(tuner: TuningCaller, monkeypatch: pytest.MonkeyPatch):
    upload = begun(tuner, bytes=10, purpose="user_data")
    monkeypatch.setattr(uploads, "PART_BYTES", 9)
    error_of(tuner.part(upload, b"x" * 10), 413)
    error_of(tuner.part(upload, b""), 400)
    assert tuner.part(upload, b"x" * 9).status_code == 200
    assert tuner.part(upload, b"x" * 9).status_code == 200, "sent again: its answer got lost"
    error_of(tuner.part(upload, b"x" * 9), 413)
    assert tuner.part(upload, b"x" * 2).status_code == 200
    assert "all the parts that it may have" in error_of(tuner.part(upload, b"x"), 400)["message"]


def test_an_upload_is_for_its_agents_keys_that_may_send(tuner: TuningCaller, agent: Agent):
    upload = begun(caller(agent))
    for other in (caller(Agent.objects.create(name="other")), TuningCaller("sk_nobody"), caller(agent, ["read"])):
        answers = (
            other.part(upload, b"a"),
            complete(other, upload, ["a"]),
            other.call("post", f"uploads/{upload}/cancel"),
        )
        assert all(answer.status_code in (401, 403, 404) for answer in answers)
    assert Upload.objects.get().status == "pending"
