"""Whatever archive is put back: it is refused in one line, in bounded memory, and nothing here has changed."""

import shutil
import sqlite3
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from rl.models import Agent
from rl.operations import dumps
from rl.operations.archive import FORMAT, Manifest
from tests.operations.hostile_archives import WEIGHTS, Corpus
from tests.refusals import refusal

ODD = (
    "names: 'data/two",
    "names: 'data/bell",
    "names: 'data/half",
    "names: 'data/models",
    "contents: files of the time",
)
"""Begin the names of what is put back all the same: a file is called in an odd way, or has an odd time."""


@pytest.fixture
def corpus(tmp_path: Path, agent: Agent) -> Corpus:
    database = tmp_path / "db.sqlite3"
    with sqlite3.connect(database) as made:
        made.execute("CREATE TABLE django_migrations (x)")
    manifest = Manifest(FORMAT, "2026-01-01", "1", "3", connection.vendor, "3", dumps.migrations(), {}, [], [])
    name = f"database/{dumps.engine().FILE}"
    return Corpus({name: database.read_bytes(), WEIGHTS: b"w" * 10}, asdict(manifest))


@pytest.fixture
def site(data_dir: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whose database is never replaced: the last step would do it."""
    settings.BACKUP_DIR = data_dir.parent
    monkeypatch.setattr(dumps.engine(), "load", lambda path: None)
    return data_dir


def write_site(folder: Path) -> None:
    shutil.rmtree(folder)
    (folder / "models").mkdir(parents=True)
    (folder / "models/weights").write_bytes(b"what is here now")


def state(folder: Path) -> dict[str, Any]:
    """What is there, but for the folder that a whole archive has made meanwhile."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {**files, "agents": list(Agent.objects.values_list("name", flat=True))}


def test_no_archive_harms_and_each_is_refused_in_one_line(corpus: Corpus, site: Path, tmp_path: Path):
    file, outside = tmp_path / "x.tar", {*tmp_path.iterdir()}
    failures, archives = [], [*corpus]
    assert len(archives) >= 200
    for name, data in archives:
        file.write_bytes(data)
        write_site(site)
        before = state(site)
        try:
            if name.startswith(ODD):
                call_command("restore", file, "--replace", verbosity=0)
                continue
            refusal("restore", file, "--replace")
        except BaseException as error:
            failures.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
        if state(site) != before:
            failures.append(f"{name}: changed what is here")
    assert not failures, "\n".join(failures)
    assert {*tmp_path.iterdir()} - outside == {file}
