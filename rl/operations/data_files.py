"""Which files of DATA_DIR belong to a backup. The others are dispensable: locks, logs of servers, kept scores, what is half
written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from rl.lm.score_folder import NAME as SCORES

_MISSABLE = ("locks", "servers", "judges", "search_cache", SCORES)
_DATABASE = re.compile(r"db\.sqlite3.*")
_PARTIAL = re.compile(r"\..+\.partial")


def top_level() -> list[Path]:
    """The files and folders directly in DATA_DIR that hold what a backup holds, in order of name."""
    return sorted(path for path in settings.DATA_DIR.iterdir() if _belongs(path))


def _belongs(path: Path) -> bool:
    name = path.name
    if name in _MISSABLE or _DATABASE.fullmatch(name) or _PARTIAL.fullmatch(name):
        return False
    return path != settings.BACKUP_DIR and str(path) != str(settings.DATABASES["default"]["NAME"])


def stored_files() -> Iterator[Path]:
    """All files of a backup, absolute, links left out. Checkpoints of runs are not among them: they change and vanish
    while a run goes on, and are large."""
    for top in top_level():
        yield from _below(top)


def _below(path: Path) -> Iterator[Path]:
    if path.is_symlink():
        return
    if path.is_file():
        yield path
    elif path.is_dir() and not _is_checkpoint(path):
        for inner in sorted(path.iterdir()):
            if not _PARTIAL.fullmatch(inner.name) and inner != settings.BACKUP_DIR:
                yield from _below(inner)


def _is_checkpoint(path: Path) -> bool:
    return path.parent.parent == settings.DATA_DIR / "runs" and path.name.startswith("checkpoint-")


def links() -> list[str]:
    """Symbolic links, relative to DATA_DIR: what they point at is not ours to copy."""
    paths = (path for top in top_level() for path in (top, *top.rglob("*")) if path.is_symlink())
    return sorted(path.relative_to(settings.DATA_DIR).as_posix() for path in paths)
