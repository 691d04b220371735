"""Backups of running installations, put back somewhere else, on both databases."""

import hashlib
import json
import tarfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.core.management import call_command

from rl.models import Agent, Artifact, ModelVersion
from rl.operations import backup, data_files, dumps
from tests.operations.installations import Plain, tables

HASH_OF_FILE = "SELECT id, content_hash FROM rl_trainingset ORDER BY created_at"
NEW_SET = (
    "INSERT INTO rl_trainingset (id, agent_id, method, pair_type, source, content_hash, train_rows, heldout_rows,"
    " feedback_count, val_split, stats, created_at) VALUES (?, 1, 'dpo', '', 'db', ?, 1, 0, 1, 0.2, '{}', ?)"
)


class Trainer(threading.Thread):
    """Goes on freezing training sets: the file, then the row that names it, committed, as Ratchet does."""

    def __init__(self, site: Plain) -> None:
        super().__init__(daemon=True)
        self.site, self.stopped, self.committed, self.broken = site, threading.Event(), [], ""
        self.beats = threading.Semaphore(0)

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                self.freeze(uuid.uuid4(), f"2026-01-01 00:00:00.{len(self.committed):06d}")
        except Exception as error:
            self.broken = repr(error)
        finally:
            self.beats.release(1000)

    def freeze(self, identifier: uuid.UUID, moment: str) -> None:
        content = f"row {moment}\n".encode()
        folder = self.site.data / "training_sets" / str(identifier)
        folder.mkdir(parents=True)
        (folder / "train.jsonl").write_bytes(content)
        key = str(identifier) if hasattr(self.site, "url") else identifier.hex
        self.site.change(NEW_SET, key, hashlib.sha256(content).hexdigest(), moment)
        self.committed.append(identifier)
        self.beats.release()


@contextmanager
def training(site: Plain) -> Iterator[Trainer]:
    trainer = Trainer(site)
    trainer.start()
    try:
        for _ in range(5):
            trainer.beats.acquire(timeout=60)
        yield trainer
    finally:
        trainer.stopped.set()
        trainer.join(60)
    assert trainer.broken == ""


def files_of(site: Plain) -> dict[str, bytes]:
    return {
        path.relative_to(site.data).as_posix(): path.read_bytes() for path in site.data.rglob("*") if path.is_file()
    }


@pytest.mark.process
@pytest.mark.slow
def test_what_is_backed_up_while_it_is_written_comes_back_whole_elsewhere(
    site: Plain, elsewhere: Plain, tmp_path: Path
):
    (site.data / "models/elsewhere").symlink_to("/etc")
    with training(site) as trainer:
        before = len(trainer.committed)
        made = site.json("backup", BACKUP_DIR=str(tmp_path / "backups"))
        after = len(trainer.committed)
    assert (made["missing"], made["links"]) == ([], ["models/elsewhere"])
    assert Path(made["backup"]).stat().st_mode & 0o777 == 0o600

    told = elsewhere.run("restore", made["backup"]).stdout
    assert "is back: the database and" in told
    rows = elsewhere.query(HASH_OF_FILE)
    assert before <= len(rows) <= after + 1  # one may be committed and not yet counted
    assert [uuid.UUID(str(key)) for key, _ in rows] == trainer.committed[: len(rows)]
    for key, digest in rows:
        content = (elsewhere.data / "training_sets" / str(uuid.UUID(str(key))) / "train.jsonl").read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest

    last = "SELECT action FROM rl_auditevent ORDER BY id DESC LIMIT 1"
    assert (site.query(last), elsewhere.query(last)) == ([("backed_up",)], [("restored",)])
    for table in ("rl_trainingset WHERE true", "rl_auditevent WHERE action IN ('backed_up', 'restored')"):
        site.change(f"DELETE FROM {table}")  # what was written meanwhile
        elsewhere.change(f"DELETE FROM {table}")
    assert tables(elsewhere) == tables(site)
    there, here = files_of(elsewhere), files_of(site)
    apart = {name for name in {*there, *here} if there.get(name) != here.get(name)}
    missable = {"locks/x", "servers/x", "answer_scores/x", "runs/1/checkpoint-4/optimizer.pt"}
    assert {name for name in apart if not name.startswith(("db.sqlite3", "training_sets/"))} == missable

    (elsewhere.data / "models/later.txt").write_text("made after the backup")
    elsewhere.run("restore", made["backup"], "--replace")
    assert elsewhere.query(HASH_OF_FILE) == rows
    assert not (elsewhere.data / "models/later.txt").exists()
    assert list(elsewhere.data.glob(".*")) == []


# --- in this process ---------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(data_dir: Path, settings, db) -> Path:
    settings.BACKUP_DIR = data_dir / "backups"
    return settings.BACKUP_DIR


def test_an_answer_that_is_stored_while_the_backup_is_made_is_in_it(folder: Path, data_dir: Path, monkeypatch):
    """It is in the copied database or among the copied files, and must not fall between the two."""
    pending = data_dir / "gateway/pending/answer.json"
    pending.parent.mkdir(parents=True)
    pending.write_text("{}")
    engine = dumps.engine()

    def dump_and_deliver(target: Path) -> None:
        target.write_bytes(b"the database before it was stored")
        pending.unlink()

    monkeypatch.setattr(engine, "dump", dump_and_deliver)
    made = backup.back_up(folder)
    assert "data/gateway/pending/answer.json" in made.manifest.files


def test_only_the_newest_are_kept_and_other_files_stay(folder: Path, monkeypatch):
    monkeypatch.setattr(dumps.engine(), "dump", lambda target: target.write_bytes(b"x"))
    folder.mkdir()
    for name in ("ratchet-20260101T000000Z.tar", "ratchet-20260102T000000Z.tar", "ratchet-notes.tar"):
        (folder / name).touch()
    made = backup.back_up(folder, keep=2)
    assert made.removed == ["ratchet-20260101T000000Z.tar"]
    assert {path.name for path in folder.iterdir()} == {
        made.path.name,
        "ratchet-20260102T000000Z.tar",
        "ratchet-notes.tar",
    }


def test_a_backup_that_fails_leaves_nothing_behind_and_removes_nothing(folder: Path, monkeypatch):
    def break_down(target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    folder.mkdir()
    (folder / "ratchet-20260101T000000Z.tar").touch()
    monkeypatch.setattr(dumps.engine(), "dump", break_down)
    with pytest.raises(backup.BackupFailed, match="No space left on device"):
        backup.back_up(folder, keep=1)
    assert [path.name for path in folder.iterdir()] == ["ratchet-20260101T000000Z.tar"]


def test_a_disk_without_room_is_told_before_anything_is_written(folder: Path, monkeypatch):
    monkeypatch.setattr(dumps.engine(), "size", lambda: 10**18)
    with pytest.raises(backup.BackupFailed, match="GB are free"):
        backup.back_up(folder)
    assert list(folder.iterdir()) == []


def test_what_a_backup_lacks_is_told(folder: Path, data_dir: Path, monkeypatch, capsys):
    monkeypatch.setattr(dumps.engine(), "dump", lambda target: target.write_bytes(b"x"))
    version = ModelVersion.objects.create(agent=Agent.objects.create(name="a"), name="v1", feedback_count=1)
    for kind, path in (("adapter", "models/a/v1/adapter"), ("gguf", "/mnt/v1.gguf")):
        Artifact.objects.create(version=version, kind=kind, path=path, size_bytes=1, sha256="0" * 64)
    call_command("backup")
    told = capsys.readouterr().out
    assert "missing: rows name models/a/v1/adapter, which is not there" in told
    assert "not in it: /mnt/v1.gguf lies outside of DATA_DIR" in told
    assert "Not in it: .env" in told


def test_backups_are_no_part_of_the_next_one(folder: Path, data_dir: Path):
    folder.mkdir()
    (folder / "ratchet-20260101T000000Z.tar").touch()
    (data_dir / "label_models").mkdir()
    (data_dir / "label_models/1.npz").touch()
    assert [path.name for path in data_files.stored_files()] == ["1.npz"]
    with pytest.raises(backup.UsageError, match="part of the next one"):
        backup.back_up(data_dir / "models")


def test_the_manifest_says_what_it_is_of(folder: Path, monkeypatch):
    monkeypatch.setattr(dumps.engine(), "dump", lambda target: target.write_bytes(b"x"))
    made = backup.back_up(folder)
    with tarfile.open(made.path) as tar:
        document = json.load(tar.extractfile("manifest.json"))
    (entry,) = document["files"].values()
    assert entry == {"size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
    assert "rl.0001_squashed_0028_tuning" in document["migrations"]
    assert document["engine"] in ("sqlite", "postgresql")
