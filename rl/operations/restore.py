"""Puts a backup back. Everything in it is checked before anything here is touched."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connection

from rl.base import files
from rl.base.errors import BackupFailed, UsageError
from rl.base.records import Report, silent
from rl.operations import audit, data_files, dumps
from rl.operations.archive import BackupReader, Manifest


@dataclass(frozen=True)
class Restored:
    """``migrated``: migrations that the backup did not have."""

    manifest: Manifest
    migrated: list[str]


def restore(path: Path, *, replace: bool = False, report: Report = silent) -> Restored:
    """Unpacks beside what is there, checks, exchanges the files, then the database in one transaction, then migrates.
    Raises BadFile, UsageError, and BackupFailed: what was there is there again then, unless the message says
    otherwise."""
    engine = dumps.engine()
    with BackupReader(path) as archive:
        manifest = archive.manifest
        _require_fitting(manifest)
        if not replace:
            _require_empty()
        elif any(path.resolve().is_relative_to(top) for top in data_files.top_level()):
            raise UsageError(f"{path} lies in DATA_DIR and would be replaced too: move it to {settings.BACKUP_DIR}")
        try:
            free = shutil.disk_usage(settings.DATA_DIR).free
            if 2 * archive.size > free:  # the database is there twice for a while
                needed = f"{2 * archive.size / 1e9:.2f} GB, {free / 1e9:.2f} GB are free"
                raise BackupFailed(f"putting it back needs up to {needed}")
            with files.scratch_directory(settings.DATA_DIR / "restore") as scratch:
                report("stage", {"name": "checking"})
                archive.unpack(scratch)
                engine.verify(scratch / "database" / engine.FILE)
                report("stage", {"name": "putting back"})
                with _exchange_files(scratch):
                    engine.load(scratch / "database" / engine.FILE)
        except OSError as error:
            raise BackupFailed(f"the backup cannot be put back: {error}") from error
    migrated = _migrate(manifest, report)
    audit.record(audit.Action.RESTORED, path.name, made_at=manifest.made_at, ratchet=manifest.ratchet)
    return Restored(manifest, migrated)


def _require_fitting(manifest: Manifest) -> None:
    if manifest.engine != connection.vendor:
        theirs, ours = (dumps.ENGINES.get(engine, engine) for engine in (manifest.engine, connection.vendor))
        raise UsageError(f"the backup is of {theirs}, and this installation uses {ours}: set DATABASE_URL accordingly")
    dumps.require_whole(manifest.migrations)
    if unknown := dumps.unknown_migrations(manifest.migrations):
        raise UsageError(
            f"the backup was made by a newer Ratchet ({manifest.ratchet}, this is {settings.VERSION}): its migration "
            f"{unknown[-1]} is not known here. Update first"
        )


def _require_empty() -> None:
    there = [path.name for path in data_files.top_level()]
    if there:
        raise UsageError(f"DATA_DIR {settings.DATA_DIR} is not empty ({there[0]}); --replace throws it away")
    if tables := dumps.tables_with_rows():
        raise UsageError(f"the database is not empty ({', '.join(tables[:3])}); --replace throws it away")


@contextmanager
def _exchange_files(scratch: Path) -> Iterator[None]:
    """The unpacked files in the place of those that are there; these again if what happens meanwhile fails."""
    aside = scratch / "replaced"
    aside.mkdir()
    new = sorted((scratch / "data").iterdir()) if (scratch / "data").exists() else []
    moves = [(path, aside / path.name) for path in data_files.top_level()]
    moves += [(path, settings.DATA_DIR / path.name) for path in new]
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            source.rename(target)
            done.append((source, target))
        yield
    except BaseException:
        for source, target in reversed(done):
            target.rename(source)
        raise


def _migrate(manifest: Manifest, report: Report) -> list[str]:
    report("stage", {"name": "migrations"})
    try:
        call_command("migrate", interactive=False, verbosity=0)
    except Exception as error:
        raise BackupFailed(f"the backup is back, but its tables could not be brought up to date: {error}") from error
    return sorted(set(dumps.migrations()) - set(manifest.migrations))
