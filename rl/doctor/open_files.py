"""Files of an SQLite database that somebody took away while it is open: what is written then is lost when it is closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.db import connection

from rl.doctor.symptom import Symptom, fine, problem

_GONE = " (deleted)"
_FIX = "copy it away at once, and stop nothing before: see docs/operations.md, The write-ahead log was removed"


def database_files() -> Iterator[Symptom]:
    """On Linux, by what the processes of this user have open, or for root everybody's. Elsewhere only a log that is missing
    beside its index is noticed."""
    if connection.vendor != "sqlite":
        yield fine("they are PostgreSQL's own")
        return
    database, seen = Path(connection.settings_dict["NAME"]).resolve(), False
    for pid, descriptor, name in taken_away(database):
        seen = True
        yield problem(
            f"{name} was removed or replaced while process {pid} has it open as /proc/{pid}/fd/{descriptor}", _FIX
        )
    if not seen and _beside(database, "-shm").exists() and not _beside(database, "-wal").exists():
        seen = True
        yield problem(f"{database.name}-wal was removed: {database.name}-shm is there without it", _FIX)
    if not seen:
        yield fine("the files of the database are those that processes have open")


def taken_away(database: Path) -> Iterator[tuple[int, int, str]]:
    """Process, descriptor, and which of the files. A log that was moved away is open under another name."""
    names = {str(_beside(database, suffix)): f"{database.name}{suffix}" for suffix in ("", "-wal", "-shm")}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        links = _links(folder)
        has_index = str(_beside(database, "-shm")) in links.values()
        for descriptor, link in links.items():
            if link.removesuffix(_GONE) in names and link.endswith(_GONE):
                yield int(folder.parent.name), descriptor, names[link.removesuffix(_GONE)]
            elif has_index and link.endswith("-wal") and link not in names:
                yield int(folder.parent.name), descriptor, f"{database.name}-wal"


def _links(folder: Path) -> dict[int, str]:
    """Descriptor to path; empty for processes of others and for those that end at this moment."""
    links = {}
    with suppress(OSError):
        for entry in folder.iterdir():
            with suppress(OSError):
                links[int(entry.name)] = str(entry.readlink())
    return links


def _beside(database: Path, suffix: str) -> Path:
    return database.with_name(database.name + suffix)
