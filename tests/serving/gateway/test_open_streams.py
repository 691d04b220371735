"""Streams on their way, and what becomes of them when their process is not there any more."""

import json
import os
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from rl.models import Agent, Trace
from rl.serving.gateway import pending
from rl.serving.gateway.pending import BROKEN_OFF, OpenStreams
from tests.serving.gateway.test_pending import document

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(data_dir: Path) -> Path:
    return data_dir / "gateway" / "pending"


def piece(content: str = "", **more: object) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": {"content": content, **more}}]}).encode()


def started(agent: Agent, by: OpenStreams) -> UUID:
    trace_id = uuid4()
    details = {"complete": False, "stream": True, "parameters": {"seed": 1}}
    by.begin(trace_id, document(agent, response="", details=details), piece("", role="assistant"))
    by.add(trace_id, piece("On its \u2028") + b"\n" + piece("way") + b"\n")
    return trace_id


def die(process: OpenStreams) -> None:
    """The kernel closes what a process had open."""
    for descriptor in process._open.values():
        os.close(descriptor)


def test_a_stream_is_in_a_file_of_its_own_until_it_ends(agent: Agent, folder: Path):
    here = OpenStreams()
    trace_id = started(agent, here)
    [path] = folder.iterdir()
    assert (path.name, path.stat().st_mode & 0o777) == (f"{trace_id}.open", 0o600)
    here.end(trace_id)
    here.end(trace_id)
    here.add(trace_id, b"late")
    assert list(folder.iterdir()) == []


def test_one_whose_process_lives_is_left_alone(agent: Agent, folder: Path):
    trace_id = started(agent, OpenStreams())
    assert pending.deliver_all() == 0
    assert pending.deliver_named([str(trace_id)]) == [str(trace_id)]
    assert not Trace.objects.exists()
    assert [path.suffix for path in folder.iterdir()] == [".open"]


def test_one_whose_process_died_is_stored_as_broken_off_with_what_it_had_said(agent: Agent, folder: Path):
    there = OpenStreams()
    trace_id = started(agent, there)
    there.add(trace_id, piece(" and never whole")[:-9])
    die(there)
    assert pending.deliver_all() == 1
    trace = Trace.objects.get(pk=trace_id)
    assert trace.response == "On its \u2028way"
    assert trace.details == {"complete": False, "stream": True, "parameters": {"seed": 1}, "error": BROKEN_OFF}
    assert list(folder.iterdir()) == []
    assert pending.deliver_all() == 0


def test_a_rating_finds_it_before_anybody_looked_for_it(agent: Agent, folder: Path):
    there = OpenStreams()
    trace_id = started(agent, there)
    die(there)
    pending.deliver_named([str(trace_id), "no id"])
    assert Trace.objects.get(pk=trace_id).details["error"] == BROKEN_OFF


@pytest.mark.parametrize("was_stored", [True, False])
def test_one_that_was_finished_a_moment_before_is_not_broken_off(agent: Agent, folder: Path, was_stored: bool):
    there = OpenStreams()
    trace_id = started(agent, there)
    pending.write(trace_id, document(agent))
    if was_stored:
        pending.deliver_these([trace_id])
    die(there)
    pending.deliver_all()
    assert Trace.objects.get(pk=trace_id).details == {"complete": True}
    assert list(folder.iterdir()) == []


def test_one_that_cannot_be_written_down_at_its_end_is_left_to_be_found(agent: Agent, folder: Path):
    here = OpenStreams()
    trace_id = started(agent, here)
    here.end(trace_id, keep=True)
    assert pending.deliver_all() == 1
    assert Trace.objects.get(pk=trace_id).details["complete"] is False


def test_a_file_that_the_gateway_has_not_written_is_set_aside(folder: Path, caplog: pytest.LogCaptureFixture):
    folder.mkdir(parents=True)
    trace_id = uuid4()
    for text in ("[]\n", "{}\n"):
        (folder / f"{trace_id}.open").write_text(text)
        pending.rescue_all()
        assert [path.name for path in folder.iterdir()] == [f"{trace_id}.open.broken"]
    assert "it is set aside" in caplog.text


def test_one_that_was_never_begun_whole_is_removed_after_a_while(folder: Path):
    folder.mkdir(parents=True)
    path = folder / f"{uuid4()}.open"
    path.write_text('{"agent_id": 1, "pro')
    pending.rescue_all()
    assert path.exists(), "somebody may be writing it"
    os.utime(path, (0, 0))
    pending.rescue_all()
    assert list(folder.iterdir()) == []


def test_a_disk_without_room_leaves_no_half_begun_file(agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(descriptor: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pending, "write_whole", refuse)
    with pytest.raises(OSError, match="No space left"):
        started(agent, OpenStreams())
    assert list(folder.iterdir()) == []
