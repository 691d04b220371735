"""Files and folders appear whole or not at all, and for their owner alone: written in a hidden folder beside their place,
flushed, then renamed.

All of it raises OSError when the disk refuses; what was begun is removed. Folders above must be there. Whoever writes
holds a lock on the hidden folder, so that what a killed process left is known, whichever container it ran in."""

import hashlib
import json
import math
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rl.base.locks import try_lock

ABANDONED_SECONDS = 24 * 3600
"""Where there are no locks, what is older than this and half written was left by a process that was killed."""
_PARTIAL = re.compile(r"\..+\.[0-9a-f]{32}\.partial")


@contextmanager
def staged_file(final: Path) -> Iterator[Path]:
    """Yields a path to write; on a normal exit that file replaces ``final``."""
    with scratch_directory(final) as folder:
        partial = folder / final.name
        yield partial
        _seal(partial)
        partial.replace(final)
        _flush(final.parent)


@contextmanager
def replacing(final: Path, mode: str = "w") -> Iterator[IO]:
    """A handle on a file, UTF-8 unless binary, that replaces ``final`` on a normal exit."""
    with staged_file(final) as partial, partial.open(mode, encoding=None if "b" in mode else "utf-8") as handle:
        yield handle


def write_text(final: Path, text: str) -> None:
    with replacing(final) as handle:
        handle.write(text)


def write_json(final: Path, value: Any) -> None:
    """Numbers that are not finite become null: JSON has none."""
    write_text(final, json.dumps(_finite(value), indent=2, default=str, allow_nan=False))


@contextmanager
def scratch_directory(final: Path) -> Iterator[Path]:
    """Yields an empty folder beside ``final``; afterwards it is gone, unless ``publish_directory`` moved it."""
    remove_leftovers(final.parent)
    partial, descriptor = _make_held(final)
    try:
        yield partial
    finally:
        remove(partial)
        os.close(descriptor)


@contextmanager
def staged_directory(final: Path) -> Iterator[Path]:
    """Yields an empty folder to fill; on a normal exit it replaces ``final``."""
    with scratch_directory(final) as partial:
        yield partial
        publish_directory(partial, final)


def publish_directory(source: Path, target: Path) -> None:
    """Gives a finished folder its final name, on the same file system, once every byte of it is on disk.

    Folders cannot replace each other in one step: an older ``target`` steps aside until the new one is in its place."""
    for path in [*source.rglob("*"), source]:
        _seal(path)
    if target.exists():
        _swap(source, target)
    else:
        source.replace(target)
    _flush(target.parent)


@contextmanager
def descriptor_of(path: Path, more_flags: int = 0) -> Iterator[int]:
    """Opens a file or a folder to read, and closes it."""
    descriptor = os.open(path, os.O_RDONLY | more_flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sha256_of(file: Path) -> str:
    """In hexadecimal digits."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def remove(path: Path) -> None:
    """A file or a folder; nothing happens when there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(directory: Path) -> list[Path]:
    """Removes what processes that are gone left half written directly in ``directory``, and tells what that was."""
    partial = [path for path in directory.glob(".*.partial") if _PARTIAL.fullmatch(path.name)]
    return [path for path in partial if _remove_left(path)]


def _remove_left(path: Path) -> bool:
    """Whether it was one: a folder that nobody holds; a plain file, or where there are no locks, one that is old."""
    # its owner may be removing it at this moment, or it may be another user's
    with suppress(OSError), descriptor_of(path, os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
        is_free = _lock(descriptor) if path.is_dir() else None
        if is_free or (is_free is None and path.stat().st_mtime < time.time() - ABANDONED_SECONDS):
            remove(path)
            return True
    return False


def _make_held(final: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor whose lock says that somebody works in it."""
    while True:
        partial = _partial_name(final)
        partial.mkdir()
        with suppress(FileNotFoundError):  # it was taken for a leftover before it was locked
            descriptor = os.open(partial, os.O_RDONLY)
            if _lock(descriptor) is not False and partial.exists():
                return partial, descriptor
            os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """False where somebody else has the lock, None where the file system has none for folders, as NFS."""
    try:
        return try_lock(descriptor)
    except OSError:
        return None


def _partial_name(final: Path) -> Path:
    return final.with_name(f".{final.name}.{uuid.uuid4().hex}.partial")


def _swap(source: Path, target: Path) -> None:
    aside = _partial_name(target)
    with descriptor_of(target) as descriptor:
        _lock(descriptor)
        target.replace(aside)
        try:
            source.replace(target)
        except OSError:
            aside.replace(target)
            raise
        remove(aside)


def _seal(path: Path) -> None:
    """On disk, and for the owner alone, whatever a library or the file that it was copied from says."""
    if not path.is_symlink():  # whose file is somebody's
        path.chmod(path.stat().st_mode & 0o700)
    _flush(path)


def _flush(path: Path) -> None:
    with descriptor_of(path) as descriptor:
        os.fsync(descriptor)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
