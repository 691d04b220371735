"""Database, queue, answers on their way, backups and keys; and files of an SQLite database that somebody took away while it
is open: what is written then is lost when it is closed."""

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from rl.base.errors import BackupFailed, UsageError
from rl.doctor import Symptom, fine, problem, warning
from rl.models import ApiKey, TrainingRun
from rl.operations import dumps, postgresql_dump, queue_state
from rl.operations.backup import backups
from rl.serving.gateway import pending

_LEAST_POSTGRESQL = 14
_PENDING_MINUTES = 5
_BACKUP_DAYS = 2
_EXPIRY_DAYS = 14


def database() -> Iterator[Symptom]:
    server = dumps.engine().server_version()  # asked first: the pool would try for ten seconds, and not say why
    applied = dumps.migrations()
    try:
        dumps.require_whole(applied)
    except UsageError as error:
        yield problem(str(error), "manage.py migrate, in the release before")
        return
    executor = MigrationExecutor(connection)
    waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if waiting:
        names = ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in waiting[:3])
        yield problem(f"{len(waiting)} migrations are not applied: {names}", "manage.py migrate")
    unknown = dumps.unknown_migrations(applied)
    if unknown:
        yield problem(
            f"the database is of a newer Ratchet: {unknown[-1]} is not known here",
            "update Ratchet, or restore a backup",
        )
    if connection.vendor == "postgresql" and int(server) < _LEAST_POSTGRESQL:
        yield problem(f"PostgreSQL {server} is too old", f"PostgreSQL {_LEAST_POSTGRESQL} or newer")
    if not waiting and not unknown:
        yield fine(f"{dumps.ENGINES[connection.vendor]} {server} answers and is migrated")


def queue() -> Iterator[Symptom]:
    """Alive where a task of each minute ended lately; the rows say so whatever the broker is."""
    from django_q.models import Failure  # reads the queue's settings when imported

    last = queue_state.last_work()
    if last is None or queue_state.is_silent(last):
        since = f"since {last:%Y-%m-%d %H:%M} UTC" if last else "here yet"
        yield problem(
            f"the queue has done nothing {since}: no training starts, no answer is rewarded", queue_state.START
        )
    else:
        yield fine(f"the queue was at work at {last:%H:%M:%S} UTC")
    recent = Failure.objects.filter(stopped__gt=timezone.now() - timedelta(days=1))
    for func in sorted(set(recent.values_list("func", flat=True))):
        count = recent.filter(func=func).count()
        yield warning(
            f"{func} failed {count} times since yesterday", "see Failed tasks in the admin, and the queue's log"
        )


def runs() -> Iterator[Symptom]:
    silence = timezone.now() - timedelta(seconds=2 * settings.RUN_HEARTBEAT_TIMEOUT)
    silent = TrainingRun.objects.filter(state=TrainingRun.State.RUNNING, heartbeat_at__lt=silence)
    for run in silent:
        yield warning(f"{run} was not heard of since {run.heartbeat_at:%Y-%m-%d %H:%M} UTC", queue_state.START)
    if not silent:
        active = TrainingRun.objects.filter(state__in=TrainingRun.ACTIVE).count()
        yield fine(f"{active} runs are queued or at work")


def pending_answers() -> Iterator[Symptom]:
    """The gateway's answers that are files and not yet rows."""
    folder = pending.folder()
    waiting = [path.stat().st_mtime for path in folder.glob(f"*{pending.FINISHED}")]
    if broken := len(list(folder.glob("*.broken"))):
        yield warning(
            f"{broken} answers could not be stored and were set aside as {folder}/*.broken",
            "see the log for why; they can be deleted once they were looked at",
        )
    minutes = (time.time() - min(waiting)) / 60 if waiting else 0
    if minutes > _PENDING_MINUTES:
        yield problem(
            f"{len(waiting)} answers wait for the database, the oldest for {minutes:.0f} minutes", queue_state.START
        )
    else:
        yield fine(f"{len(waiting)} answers wait for the database")


def latest_backup() -> Iterator[Symptom]:
    fix = "manage.py backup, daily: see docs/operations.md"
    newest = next(iter(backups(settings.BACKUP_DIR)), None)
    if newest is None:
        yield warning(f"there is no backup in {settings.BACKUP_DIR}", fix)
    else:
        days = (time.time() - newest.stat().st_mtime) / 86_400
        if days > _BACKUP_DAYS:
            yield warning(f"the newest backup is {days:.0f} days old", fix)
        else:
            yield fine(f"the newest backup is {newest.name}")
    if connection.vendor == "postgresql":
        try:
            postgresql_dump.require_matching("pg_dump")
        except BackupFailed as error:
            yield problem(f"no backup can be made: {error}", "install the PostgreSQL client named there")


def keys() -> Iterator[Symptom]:
    now = timezone.now()
    soon = ApiKey.valid().filter(expires_at__lt=now + timedelta(days=_EXPIRY_DAYS))
    over = ApiKey.objects.filter(revoked_at__isnull=True, expires_at__lte=now)
    still_used = over.filter(last_used_at__gt=now - timedelta(days=1))
    for key in soon:
        yield warning(f"the API key {key} expires on {key.expires_at:%Y-%m-%d}", "manage.py api_key create, in time")
    for key in still_used:
        yield warning(f"the API key {key} expired while it was in use", "manage.py api_key create, and replace it")
    if not soon and not still_used:
        yield fine(f"no API key expires within {_EXPIRY_DAYS} days")


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
