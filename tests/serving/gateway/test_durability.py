"""What was answered is not lost: with a database that is locked, and when the process is killed."""

import sqlite3
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from rl.serving.gateway.pending import BROKEN_OFF
from tests.commands.site import Site
from tests.serving.gateway.conftest import Gateway, copy_database, serving
from tests.waiting import until

pytestmark = pytest.mark.process


def test_a_locked_database_holds_no_answer_up_and_the_trace_follows(gateway: Gateway):
    lock = sqlite3.connect(gateway.site.data / "db.sqlite3", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    try:
        said = [gateway.say("while it is locked").id for _ in range(5)]
        chunks = list(gateway.say("while it is locked", stream=True))
        until(lambda: len(gateway.pending) >= 6)
    finally:
        lock.execute("ROLLBACK")
        lock.close()
    for trace_id in (*said, chunks[0].id):
        assert gateway.trace(trace_id)["source"] == "gateway"
    until(lambda: not gateway.pending)


@pytest.fixture
def copied(prepared, tmp_path) -> tuple[Site, Any]:
    """An installation of its own; the shared gateway must not see its files."""
    site = Site(tmp_path / "data")
    site.data.mkdir()
    copy_database(prepared[0].data / "db.sqlite3", site)
    return site, prepared[1]


@pytest.mark.slow
def test_a_killed_gateway_loses_no_answer_and_a_stopped_one_keeps_what_was_said(copied, upstream):
    site = copied[0]
    with serving(*copied, upstream) as gateway:
        lock = sqlite3.connect(site.data / "db.sqlite3", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        said = [gateway.say("before the end").id, list(gateway.say("before the end", stream=True))[0].id]
        gateway.process.kill()
        lock.close()
    assert len(gateway.pending) == 2
    assert site.query("SELECT COUNT(*) FROM rl_trace WHERE prompt LIKE '%before the end%'") == [(0,)]
    with serving(*copied, upstream) as gateway:
        assert all(gateway.trace(trace_id)["details"]["complete"] for trace_id in said)
        until(lambda: not gateway.pending)
        _stopped_while_it_talks(gateway)


def test_answers_in_the_middle_of_which_the_gateway_is_killed_are_there_afterwards_and_can_be_rated(copied, upstream):
    with serving(*copied, upstream) as gateway:
        streams = [gateway.say("talk for ever", stream=True) for _ in range(5)]
        seen = [[next(stream) for _ in range(8)] for stream in streams]
        ids = [chunks[0].id for chunks in seen]
        texts = ["".join(chunk.choices[0].delta.content or "" for chunk in chunks) for chunks in seen]
        until(lambda: all(" more" in path.read_text() for path in _begun(gateway)))
        assert {path.stem for path in _begun(gateway)} == {*ids}
        gateway.process.kill()
        gateway.process.wait()
    with serving(*copied, upstream) as gateway:
        for trace_id, text in zip(ids, texts, strict=True):
            headers = {"Authorization": f"Bearer {gateway.keys['all']}"}
            body = {"trace": trace_id, "rater": "anna", "scale": "thumb", "value": 0}
            assert httpx.post(f"{gateway.url}/api/v1/feedback/", json=body, headers=headers).status_code == 201
            trace = gateway.trace(trace_id)
            assert (trace["details"]["complete"], trace["details"]["error"]) == (False, BROKEN_OFF)
            assert trace["response"].startswith(text[:10])
        until(lambda: not (gateway.pending or _begun(gateway)))


def _begun(gateway: Gateway) -> list[Path]:
    return list((gateway.site.data / "gateway" / "pending").glob("*.open"))


def _stopped_while_it_talks(gateway: Gateway) -> None:
    chunks = gateway.say("talk for ever", stream=True)
    seen = [next(chunks) for _ in range(12)]
    gateway.process.terminate()
    with pytest.raises((openai.APIError, httpx.HTTPError)):
        list(chunks)
    gateway.process.wait(60)
    trace = gateway.trace(seen[0].id)
    assert (trace["details"]["complete"], " more more" in trace["response"]) == (False, True)
    assert gateway.pending == []
