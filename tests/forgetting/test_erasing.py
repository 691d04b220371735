"""What a database keeps of deleted rows is cleaned, or the receipt says why not."""

import sqlite3
from pathlib import Path

import pytest
from django.db import connection

from rl import tasks
from rl.base.errors import RunConflict
from rl.collect.feedback import write
from rl.forgetting import erasing
from rl.forgetting.forget import forget
from rl.forgetting.receipts import sentences
from rl.forgetting.records import find_person
from rl.models import Agent, PendingSpan, Trace
from tests.conftest import make_trace
from tests.forgetting.test_every_byte import find

pytestmark = pytest.mark.database


WORD = "zyxquuth"
ON_SQLITE = connection.vendor == "sqlite"


def open_log(path: Path) -> sqlite3.Connection:
    made = sqlite3.connect(path, timeout=0, isolation_level=None)
    for setting in ("journal_mode=WAL", "secure_delete=ON"):
        made.execute(f"PRAGMA {setting}")
    return made


def test_the_log_is_emptied_unless_somebody_reads_from_it(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(erasing, "PATIENCE_SECONDS", 0)
    writer, reader = (open_log(tmp_path / "db.sqlite3") for _ in range(2))
    writer.execute("CREATE TABLE said (words)")
    writer.execute("INSERT INTO said VALUES (?)", (WORD,))
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM said").fetchall()
    writer.execute("DELETE FROM said")
    assert not erasing.empty_log(writer.cursor())
    assert "db.sqlite3-wal" in find([WORD], tmp_path)
    reader.execute("COMMIT")
    assert erasing.empty_log(writer.cursor())
    assert find([WORD], tmp_path) == {}
    writer.close()
    reader.close()


@pytest.mark.django_db(transaction=True)
def test_the_receipt_says_what_is_left_and_the_same_command_tries_again(agent: Agent, data_dir: Path, monkeypatch):
    monkeypatch.setattr(erasing, "empty_log", lambda cursor: False)
    receipt = forget(find_person("user:charlie"))
    expected = "somebody reads from it: run this command again" if ON_SQLITE else "until VACUUM FULL"
    assert expected in receipt["remains"]["database"]
    assert expected in " ".join(sentences(receipt))
    monkeypatch.undo()
    left = forget(find_person("user:charlie"))["remains"]["database"]
    assert left == "" if ON_SQLITE else expected in left


@pytest.mark.django_db
@pytest.mark.skipif(not ON_SQLITE, reason="PostgreSQL's operator does it")
def test_within_a_transaction_of_the_caller_nothing_can_be_cleaned(data_dir: Path):
    assert "until its transaction is over" in erasing.erase_deleted()
    with pytest.raises(RunConflict, match="until its transaction is over"):
        tasks.erase_deleted()


@pytest.mark.django_db
def test_spans_that_wait_go_with_the_answers_of_their_trace(agent: Agent, data_dir: Path):
    for number, unit in enumerate(("user:charlie", "user:alice")):
        make_trace(agent, unit=unit, otel_trace_id=f"{number:032x}")
        PendingSpan.objects.create(
            agent=agent, otel_trace_id=f"{number:032x}", span_id="0" * 16, payload={"said": WORD}
        )
    write.rate(Trace.objects.get(unit="user:alice"), rater="user:charlie", scale="thumb", value=1, source="test")
    assert forget(find_person("user:charlie"), retrain=False)["deleted"]["PendingSpan"] == 1
    assert PendingSpan.objects.get().otel_trace_id == f"{1:032x}"
