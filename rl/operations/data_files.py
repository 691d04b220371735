"""Which files of DATA_DIR belong to a backup. The others are dispensable: locks, logs of servers, kept scores, what is half
written. What killed processes left half written is removed: whatever ``rl.base.files`` stages."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from rl.base.files import remove_leftovers
from rl.lm.score_folder import NAME as SCORES

_MISSABLE = ("locks", "servers", "judges", "search_cache", SCORES)
_DATABASE = re.compile(r"db\.sqlite3.*")
_PARTIAL = re.compile(r"\..+\.partial")


def top_level() -> list[Path]:
    """The files and folders directly in DATA_DIR that hold what a backup holds, in order of name."""
    elsewhere = (str(settings.BACKUP_DIR), str(settings.DATABASES["default"]["NAME"]))
    paths = (path for path in settings.DATA_DIR.iterdir() if path.name not in _MISSABLE and str(path) not in elsewhere)
    return sorted(path for path in paths if not (_DATABASE.fullmatch(path.name) or _PARTIAL.fullmatch(path.name)))


def stored_files() -> Iterator[Path]:
    """All files of a backup, absolute, links left out. Checkpoints of runs are not among them: they change and vanish
    while a run goes on, and are large."""
    for top in top_level():
        yield from _below(top)


def _below(path: Path) -> Iterator[Path]:
    runs = settings.DATA_DIR / "runs"
    if path.is_symlink():
        return
    if path.is_file():
        yield path
    elif path.is_dir() and not (path.parent.parent == runs and path.name.startswith("checkpoint-")):
        for inner in sorted(path.iterdir()):
            if not _PARTIAL.fullmatch(inner.name) and inner != settings.BACKUP_DIR:
                yield from _below(inner)


def links() -> list[str]:
    """Symbolic links, relative to DATA_DIR: what they point at is not ours to copy."""
    paths = (path for top in top_level() for path in (top, *top.rglob("*")) if path.is_symlink())
    return sorted(path.relative_to(settings.DATA_DIR).as_posix() for path in paths)


def clear_leftovers() -> list[Path]:
    """Removes it below DATA_DIR and in BACKUP_DIR; the site and the queue do so when they start. What was removed."""
    gone = remove_leftovers(settings.BACKUP_DIR)
    for folder, names, _ in os.walk(settings.DATA_DIR):
        gone += remove_leftovers(Path(folder))
        names[:] = [name for name in names if not name.endswith(".partial")]
    return gone
