"""PostgreSQL's own programs, and what is said where they do not fit."""

from pathlib import Path

import pytest
from django.db import connection

from rl.base.errors import BackupFailed
from rl.operations import postgresql_dump

pytestmark = [
    pytest.mark.database,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="for PostgreSQL"),
]


def program(folder: Path, name: str, version: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
    (folder / name).chmod(0o755)


@pytest.mark.process
def test_a_program_that_is_missing_is_named_with_its_package(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackupFailed, match="pg_dump is not installed.*postgresql-client"):
        postgresql_dump.dump(tmp_path / "x")


@pytest.mark.process
def test_a_program_that_is_older_than_the_server_is_refused(tmp_path: Path, monkeypatch):
    program(tmp_path, "pg_dump", "9.6.24 (Debian 9.6)")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(
        BackupFailed, match=r"pg_dump 9 is older than the server, PostgreSQL \d+.*postgresql-client-\d+"
    ):
        postgresql_dump.dump(tmp_path / "x")


def test_the_password_is_not_among_the_arguments(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "PASSWORD", "hunter2")
    assert "hunter2" not in postgresql_dump._conninfo()
    assert postgresql_dump._parameters()["password"] == "hunter2"


@pytest.mark.process
def test_tables_come_back_when_the_new_ones_do_not_arrive(tmp_path: Path):
    (tmp_path / "x").write_bytes(b"no dump")
    with pytest.raises(BackupFailed, match="pg_restore failed"):
        postgresql_dump.load(tmp_path / "x")
    assert "rl_agent" in connection.introspection.table_names()
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM pg_namespace WHERE nspname = %s", [postgresql_dump.ASIDE])
        assert cursor.fetchone() == (0,)
