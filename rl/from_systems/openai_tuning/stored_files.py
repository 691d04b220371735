"""Files that clients sent, and files of results: rows, and bytes in ``DATA_DIR/files``. Bytes come before their row and go
after it, so that a row has them; bytes without a row were interrupted on their way."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from rl.base.files import remove, staged_file
from rl.models.access import ApiKey
from rl.models.agents import Agent
from rl.models.tuning import Upload, UploadedFile

FINE_TUNE: Final = "fine-tune"
SENT: Final = (FINE_TUNE, "user_data", "evals")
"""Purposes of files that clients send."""
INTERRUPTED_SECONDS: Final = 3600
"""Bytes that are older than this and have no row will get none."""


def live_files() -> QuerySet[UploadedFile]:
    """Those that have not expired."""
    return UploadedFile.objects.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))


@contextmanager
def new_file(row: UploadedFile, save: Callable[[], object] | None = None) -> Iterator[Path]:
    """Yields a path to write; on a normal exit the file is there, and its row, which ``save`` saves. Raises OSError and
    DatabaseError, and nothing is left then."""
    row.path.parent.mkdir(exist_ok=True, mode=0o700)
    with staged_file(row.path) as path:
        yield path
        row.bytes = path.stat().st_size
    try:
        (save or row.save)()
    except BaseException:
        remove(row.path)
        raise


def write_file(
    agent: Agent | None, api_key: ApiKey | None, filename: str, purpose: str, pieces: Iterable[bytes]
) -> UploadedFile:
    """Raises OSError and DatabaseError."""
    row = UploadedFile(agent=agent, api_key=api_key, filename=filename, purpose=purpose)
    with new_file(row) as path, path.open("wb") as file:
        file.writelines(pieces)
    return row


def delete_file(row: UploadedFile) -> None:
    path = row.path
    row.delete()
    remove(path)


def sweep() -> int:
    """Removes what has expired, bytes whose row is gone, with their agent for example, and rows whose bytes are. How many
    there were. Raises OSError and DatabaseError."""
    now = timezone.now()
    gone = sum(kind.objects.filter(expires_at__lte=now).delete()[0] for kind in (UploadedFile, Upload))
    folder = settings.DATA_DIR / "files"
    if not folder.is_dir():  # another disk, perhaps, that is not there today
        return gone
    before = time.time() - INTERRUPTED_SECONDS
    paths = {path.name: path for path in folder.iterdir() if not path.name.startswith(".")}
    files = set(UploadedFile.objects.values_list("pk", flat=True))
    rowless = paths.keys() - files - set(Upload.objects.values_list("pk", flat=True))
    left = [paths[name] for name in rowless if _is_older(paths[name], before)]
    for path in left:
        remove(path)
    lost = [name for name in files - paths.keys() if not (folder / name).exists()]
    for name in lost:
        UploadedFile.objects.filter(pk=name).delete()
    return gone + len(left) + len(lost)


def _is_older(path: Path, before: float) -> bool:
    with suppress(FileNotFoundError):  # deleted at this moment
        return path.stat().st_mtime < before
    return False
