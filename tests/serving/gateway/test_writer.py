from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from rl.serving.gateway import pending, writer
from rl.serving.gateway.answer_rows import Unanswered
from rl.serving.gateway.pending import path_of
from rl.serving.gateway.refusals import unkept
from tests.waiting import until

pytestmark = pytest.mark.process


class Rows:
    """In the place of the database: each delivery, and how often it refuses first."""

    def __init__(self) -> None:
        self.delivered: list[list[UUID]] = []
        self.unanswered: list[Unanswered] = []
        self.refusals = 0

    def deliver_these(self, ids: list[UUID]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OperationalError("database is locked")
        if ids:
            self.delivered.append(list(ids))

    def store(self, answers: dict, unanswered: list[Unanswered]) -> None:
        self.unanswered += unanswered


@pytest.fixture
def rows(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Rows:
    found = Rows()
    monkeypatch.setattr(pending, "deliver_these", found.deliver_these)
    monkeypatch.setattr(pending, "deliver_all", lambda: 0)
    monkeypatch.setattr(writer, "store", found.store)
    monkeypatch.setattr(writer, "GATHER_SECONDS", 0.05)
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.01)
    return found


@pytest.fixture
def running(rows: Rows) -> Iterator[writer.Writer]:
    one = writer.Writer()
    one.start()
    yield one
    one.stop()


def test_answers_that_end_together_are_stored_together(rows: Rows, data_dir: Path):
    one, ids = writer.Writer(), [uuid4() for _ in range(3)]
    for each in ids:
        one.keep(each, {}).result(60)
    assert {path.stem for path in (data_dir / "gateway" / "pending").iterdir()} == {str(each) for each in ids}
    one.start()
    until(lambda: rows.delivered)
    one.stop()
    assert rows.delivered == [ids]


def test_a_database_that_refuses_is_asked_again_and_is_told_of_once(running: writer.Writer, rows: Rows, caplog):
    rows.refusals = 3
    answer = uuid4()
    running.keep(answer, {})
    until(lambda: rows.delivered)
    assert (rows.delivered, rows.refusals) == ([[answer]], 0)
    assert caplog.text.count("they wait in files: OperationalError: database is locked") == 1


def test_requests_without_an_answer_are_counted_once_though_the_answers_are_refused(running: writer.Writer, rows: Rows):
    rows.refusals = 2
    running.count(Unanswered(1, 2, "anna"))
    running.keep(uuid4(), {})
    until(lambda: rows.delivered)
    assert rows.unanswered == [Unanswered(1, 2, "anna")]


def test_an_answer_for_which_the_disk_is_full_is_refused_and_what_was_begun_of_it_stays(
    running: writer.Writer, rows: Rows, monkeypatch: pytest.MonkeyPatch, caplog
):
    def full(trace_id: UUID, document: dict) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        answer = uuid4()
        assert running.begin(answer, {}, b"{}").result(60) is None
        patch.setattr(pending, "write", full)
        error = running.keep(answer, {}).result(60)
        assert error is not None
        assert (unkept(error).status, unkept(error).headers["Retry-After"]) == (507, "30")
    assert "cannot be written: [Errno 28] No space left on device" in caplog.text
    assert path_of(answer, ".open").exists()
    next_one = uuid4()
    running.keep(next_one, {})
    until(lambda: rows.delivered)
    assert rows.delivered == [[next_one]]


def test_what_was_said_before_the_end_is_stored_before_it(rows: Rows):
    one, answer = writer.Writer(), uuid4()
    one.start()
    one.keep(answer, {})
    one.stop()
    assert rows.delivered == [[answer]]
