"""What restore refuses: it looks at the whole archive before it touches anything."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from rl.base.errors import BackupFailed, BadFile, UsageError
from rl.models import Agent
from rl.operations import backup, dumps, restore
from rl.operations.archive import BackupReader

pytestmark = pytest.mark.database


Change = Callable[[dict[str, tarfile.TarInfo], dict[str, bytes]], None]


@pytest.fixture
def made(data_dir: Path, settings, db, monkeypatch) -> Path:
    """A backup of one file, whose database is no database: what is refused here is refused before that matters."""
    settings.BACKUP_DIR = data_dir / "backups"
    (data_dir / "models").mkdir()
    (data_dir / "models/weights").write_bytes(b"w" * 100)
    monkeypatch.setattr(dumps.engine(), "dump", lambda target: target.write_bytes(b"d"))
    monkeypatch.setattr(dumps.engine(), "verify", lambda path: None)
    monkeypatch.setattr(dumps.engine(), "load", lambda path: None)
    return backup.back_up(settings.BACKUP_DIR).path


def rewritten(archive: Path, change: Change) -> Path:
    """The archive with other members, or other contents, under the same manifest unless that is changed too."""
    with tarfile.open(archive) as tar:
        infos = {member.name: member for member in tar.getmembers()}
        contents = {name: tar.extractfile(name).read() for name in infos}
    change(infos, contents)
    target = archive.with_name("changed.tar")
    with tarfile.open(target, "w") as tar:
        for name, member in infos.items():
            content = contents.get(name, b"")
            if member.isreg():
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return target


def with_manifest(**fields: object) -> Change:
    def change(infos: dict[str, tarfile.TarInfo], contents: dict[str, bytes]) -> None:
        document = json.loads(contents["manifest.json"])
        contents["manifest.json"] = json.dumps({**document, **fields}).encode()

    return change


def renamed(name: str) -> Change:
    """The file of DATA_DIR under another name, in the manifest too: a whole archive of somebody who means harm."""

    def change(infos: dict[str, tarfile.TarInfo], contents: dict[str, bytes]) -> None:
        document = json.loads(contents["manifest.json"])
        document["files"][name] = document["files"].pop("data/models/weights")
        contents["manifest.json"] = json.dumps(document).encode()
        infos[name], contents[name] = infos.pop("data/models/weights"), contents.pop("data/models/weights")
        infos[name].name = name

    return change


def linked(kind: bytes) -> Change:
    def change(infos: dict[str, tarfile.TarInfo], contents: dict[str, bytes]) -> None:
        member = infos["data/models/weights"]
        member.type, member.linkname, member.size = kind, "/etc/passwd", 0

    return change


def other_content(infos: dict[str, tarfile.TarInfo], contents: dict[str, bytes]) -> None:
    contents["data/models/weights"] = b"x" * 100


def without_file(infos: dict[str, tarfile.TarInfo], contents: dict[str, bytes]) -> None:
    del infos["data/models/weights"]


def with_a_stowaway(infos: dict[str, tarfile.TarInfo], contents: dict[str, bytes]) -> None:
    infos["data/stowaway"] = tarfile.TarInfo("data/stowaway")
    contents["data/stowaway"] = b"not in the manifest"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (other_content, "SHA-256 differs"),
        (without_file, "is incomplete"),
        (with_a_stowaway, "not in it"),
        (with_manifest(format=2), "a newer Ratchet made it"),
        (with_manifest(files=[]), "is damaged"),
        (with_manifest(migrations="all"), "is damaged"),
        (with_manifest(surprise=1), "is damaged"),
        (renamed("data/../../outside"), "is not safe to unpack"),
        (renamed("/etc/cron.d/x"), "is not safe to unpack"),
        (renamed("data/a/../../../x"), "is not safe to unpack"),
        (renamed("elsewhere/x"), "is not safe to unpack"),
        (linked(tarfile.SYMTYPE), "is not safe to unpack"),
        (linked(tarfile.LNKTYPE), "is not safe to unpack"),
        (linked(tarfile.FIFOTYPE), "is not safe to unpack"),
        (linked(tarfile.CHRTYPE), "is not safe to unpack"),
    ],
)
def test_an_archive_that_is_not_what_was_made_is_refused(made: Path, data_dir: Path, change: Change, complaint: str):
    (data_dir / "models/weights").write_bytes(b"what is here now")
    with pytest.raises(BadFile, match=complaint):
        restore.restore(rewritten(made, change), replace=True)
    assert (data_dir / "models/weights").read_bytes() == b"what is here now"
    assert list(data_dir.glob(".*")) == []


def test_an_archive_that_was_cut_off_is_refused(made: Path):
    made.write_bytes(made.read_bytes()[:2048])
    with pytest.raises(BadFile, match="cut off"):
        BackupReader(made)


@pytest.mark.parametrize("content", [b"", b"not a tar", b"\0" * 10240])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "x.tar").write_bytes(content)
    with pytest.raises(BadFile, match="not a backup"):
        BackupReader(tmp_path / "x.tar")


def test_a_name_that_occurs_twice_is_refused(made: Path):
    with tarfile.open(made, "a") as tar:
        tar.addfile(tarfile.TarInfo("data/models/weights"))
    with pytest.raises(BadFile, match="twice"):
        BackupReader(made)


def test_a_backup_of_a_newer_ratchet_is_refused(made: Path):
    newer = rewritten(made, with_manifest(migrations=["rl.9999_from_the_future"]))
    with pytest.raises(UsageError, match="9999_from_the_future is not known here. Update first"):
        restore.restore(newer, replace=True)


def test_a_backup_that_stopped_halfway_before_the_first_release_is_refused(made: Path):
    older = rewritten(made, with_manifest(migrations=["rl.0001_initial", "rl.0002_traces_and_rewards"]))
    with pytest.raises(UsageError, match="as of rl.0002_traces_and_rewards"):
        restore.restore(older, replace=True)


def test_a_backup_of_another_database_is_refused(made: Path):
    other = "postgresql" if connection.vendor == "sqlite" else "sqlite"
    with pytest.raises(UsageError, match="set DATABASE_URL accordingly"):
        restore.restore(rewritten(made, with_manifest(engine=other)), replace=True)


def test_files_that_are_there_are_thrown_away_only_when_that_is_asked(made: Path, data_dir: Path):
    with pytest.raises(UsageError, match=r"DATA_DIR .* is not empty \(models\); --replace"):
        restore.restore(made)
    (data_dir / "models/weights").write_bytes(b"changed")
    restore.restore(made, replace=True)
    assert (data_dir / "models/weights").read_bytes() == b"w" * 100


def test_rows_that_are_there_are_thrown_away_only_when_that_is_asked(made: Path, data_dir: Path):
    (data_dir / "models").rename(data_dir.parent / "models")
    Agent.objects.create(name="support-chat")
    with pytest.raises(UsageError, match=r"the database is not empty \(rl_agent, .*\); --replace"):
        restore.restore(made)


def test_a_database_that_cannot_be_replaced_leaves_the_files_as_they_were(made: Path, data_dir: Path, monkeypatch):
    def refuse(path: Path) -> None:
        raise BackupFailed("the tables are in use")

    (data_dir / "models/weights").write_bytes(b"what is here now")
    (data_dir / "label_models").mkdir()
    monkeypatch.setattr(dumps.engine(), "load", refuse)
    with pytest.raises(BackupFailed, match="in use"):
        restore.restore(made, replace=True)
    assert (data_dir / "models/weights").read_bytes() == b"what is here now"
    assert sorted(path.name for path in data_dir.iterdir()) == ["backups", "label_models", "models"]


def test_an_archive_among_what_is_replaced_is_refused(made: Path, data_dir: Path):
    moved = made.rename(data_dir / "models" / made.name)
    with pytest.raises(UsageError, match="would be replaced too"):
        restore.restore(moved, replace=True)


def test_the_command_says_what_is_wrong_in_one_line(tmp_path: Path, db):
    with pytest.raises(CommandError, match="cannot be read: No such file or directory") as caught:
        call_command("restore", str(tmp_path / "gone.tar"))
    assert caught.value.returncode == 2
