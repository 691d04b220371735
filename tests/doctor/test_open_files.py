"""A write-ahead log that is taken away under a living process is noticed, and what is in it can be saved."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from rl.doctor import Severity
from rl.doctor.data import database_files, taken_away

pytestmark = [
    pytest.mark.database,
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]
PROGRAM = """
import sqlite3, sys
made = sqlite3.connect(sys.argv[1], isolation_level=None)
made.execute("PRAGMA journal_mode=WAL")
made.execute("CREATE TABLE said (words)")
for line in sys.stdin:
    made.execute("INSERT INTO said VALUES (?)", (line.strip(),))
    print("kept", flush=True)
"""


class Writer:
    def __init__(self, database: Path) -> None:
        command = [sys.executable, "-c", PROGRAM, str(database)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def write(self, word: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "kept\n"


@pytest.fixture
def database(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(connection, "vendor", "sqlite")
    monkeypatch.setitem(connection.settings_dict, "NAME", str(tmp_path / "db.sqlite3"))
    return tmp_path / "db.sqlite3"


@pytest.fixture
def writer(database: Path) -> Iterator[Writer]:
    made = Writer(database)
    made.write("before")
    yield made
    made.process.kill()
    made.process.communicate()


def severities() -> list[Severity]:
    return [symptom.severity for symptom in database_files()]


def log_of(database: Path) -> Path:
    return database.with_name("db.sqlite3-wal")


def test_what_is_as_it_should_be_is_fine(database: Path, writer: Writer):
    assert severities() == [Severity.FINE]
    assert list(taken_away(database)) == []


@pytest.mark.parametrize("way", ["deleted", "moved", "replaced"])
def test_a_log_that_is_taken_away_is_a_problem_whose_contents_can_be_put_back(
    database: Path, writer: Writer, tmp_path: Path, way: str
):
    log = log_of(database)
    if way == "deleted":
        log.unlink()
    else:
        log.rename(tmp_path / "elsewhere-wal")
    if way == "replaced":
        log.touch()
    writer.write("after")
    ((pid, descriptor, name),) = taken_away(database)
    assert (pid, name) == (writer.process.pid, "db.sqlite3-wal")
    (symptom,) = database_files()
    assert (symptom.severity, f"/proc/{pid}/fd/{descriptor}" in symptom.text) == (Severity.PROBLEM, True)
    saved = tmp_path / "saved"
    shutil.copyfile(f"/proc/{pid}/fd/{descriptor}", saved)
    writer.process.kill()
    writer.process.wait()
    database.with_name("db.sqlite3-shm").unlink()
    saved.replace(log)
    with sqlite3.connect(database) as again:
        assert again.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert again.execute("SELECT words FROM said").fetchall() == [("before",), ("after",)]
    again.close()


def test_a_database_that_is_replaced_is_a_problem(database: Path, writer: Writer):
    database.unlink()
    database.touch()
    assert [name for _, _, name in taken_away(database)] == ["db.sqlite3"]


def test_an_index_without_its_log_is_a_problem_after_all_have_ended(database: Path, writer: Writer):
    writer.process.kill()
    writer.process.wait()
    log_of(database).unlink()
    assert severities() == [Severity.PROBLEM]
