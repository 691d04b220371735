"""A backup of everything but ``.env``, while the site and the queue go on.

Order makes it consistent. Answers that wait for the database are copied first: one that reaches the database meanwhile is
in the backup twice, and delivering it again changes nothing. Then the database, in one state. Then the other files: each
was there before the row that names it, and never changes afterwards."""

import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import connection

from rl.base import files
from rl.base.errors import BackupFailed, UsageError
from rl.base.records import Report, silent
from rl.models import Artifact, Deployment, LabelModel, TrainingSet
from rl.operations import audit, data_files, dumps
from rl.operations.archive import FORMAT, BackupWriter, Manifest

_NAME = re.compile(r"ratchet-\d{8}T\d{6}Z\.tar")
_RESERVE = 64 * 1024 * 1024
"""Bytes that a backup leaves free: the site writes too."""


@dataclass(frozen=True)
class Backup:
    path: Path
    manifest: Manifest
    links: list[str]
    removed: list[str]


def back_up(folder: Path, *, keep: int | None = None, report: Report = silent) -> Backup:
    """Writes ``ratchet-<time>.tar`` into ``folder``, whole or not at all; then removes all but the newest ``keep``.
    Raises BackupFailed, and UsageError where the folder cannot be used."""
    path = _folder(folder) / f"ratchet-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar"
    try:
        _require_space(folder)
        with (
            files.scratch_directory(path.with_suffix(".work")) as scratch,
            files.staged_file(path) as partial,
            BackupWriter(partial) as archive,
        ):
            manifest = _fill(archive, scratch, report)
        old = backups(folder)[keep:] if keep else []
        for outdated in old:
            outdated.unlink(missing_ok=True)
    except OSError as error:
        raise BackupFailed(f"the backup cannot be written to {folder}: {error.strerror or error}") from error
    audit.record(audit.Action.BACKED_UP, path.name, files=len(manifest.files), missing=len(manifest.missing))
    return Backup(path, manifest, data_files.links(), [outdated.name for outdated in old])


def backups(folder: Path) -> list[Path]:
    """The newest first. Empty where there is no such folder."""
    return sorted((path for path in folder.glob("ratchet-*.tar") if _NAME.fullmatch(path.name)), reverse=True)


def _fill(archive: BackupWriter, scratch: Path, report: Report) -> Manifest:
    engine = dumps.engine()
    report("stage", {"name": "answers on their way"})
    pending = settings.DATA_DIR / "gateway"
    _add(archive, (path for path in data_files.stored_files() if path.is_relative_to(pending)))
    report("stage", {"name": "database"})
    migrations = dumps.migrations()
    engine.dump(scratch / engine.FILE)
    archive.add(f"database/{engine.FILE}", scratch / engine.FILE)
    (scratch / engine.FILE).unlink()
    named, outside = _named_files(), sorted(name for name in _artifact_paths() if name.startswith("/"))
    report("stage", {"name": "files"})
    _add(archive, (path for path in data_files.stored_files() if not path.is_relative_to(pending)))
    manifest = Manifest(
        format=FORMAT,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        ratchet=settings.VERSION,
        python=platform.python_version(),
        engine=connection.vendor,
        server=engine.server_version(),
        migrations=migrations,
        files=archive.files,
        missing=[name for name in named if not _holds(archive, name)],
        outside=outside,
    )
    archive.finish(manifest, scratch / "manifest.json")
    return manifest


def _add(archive: BackupWriter, paths: Iterator[Path]) -> None:
    for path in paths:
        archive.add(f"data/{path.relative_to(settings.DATA_DIR).as_posix()}", path)


def _named_files() -> list[str]:
    """Files and folders that rows name, relative to DATA_DIR."""
    sets = (f"training_sets/{key}" for key in TrainingSet.objects.values_list("pk", flat=True))
    labels = (f"label_models/{key}.npz" for key in LabelModel.objects.values_list("pk", flat=True))
    return sorted({*sets, *labels, *(name for name in _artifact_paths() if not name.startswith("/"))})


def _artifact_paths() -> set[str]:
    deployed = Deployment.objects.exclude(path="").values_list("path", flat=True)
    return {*Artifact.objects.values_list("path", flat=True), *deployed}


def _holds(archive: BackupWriter, name: str) -> bool:
    member = f"data/{name}"
    return member in archive.files or any(file.startswith(f"{member}/") for file in archive.files)


def _folder(folder: Path) -> Path:
    if folder.is_relative_to(settings.DATA_DIR) and folder != settings.BACKUP_DIR:
        raise UsageError(
            f"backups cannot be kept in {folder}: they would be part of the next one. Choose another folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"backups cannot be kept in {folder}: {error.strerror}") from error
    return folder


def _require_space(folder: Path) -> None:
    """Twice the database: its copy lies beside the archive until it is in it."""
    needed = 2 * dumps.engine().size() + sum(path.stat().st_size for path in data_files.stored_files()) + _RESERVE
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise BackupFailed(
            f"the backup needs up to {needed / 1e9:.2f} GB in {folder}, and {free / 1e9:.2f} GB are free: "
            "choose another folder, or keep fewer backups"
        )
