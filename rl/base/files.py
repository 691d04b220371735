"""Files and folders appear whole or not at all: written under a hidden name beside their place, flushed, then renamed.

All of it raises OSError when the disk refuses; what was begun is removed. Folders above must be there.
"""

from __future__ import annotations

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

ABANDONED_SECONDS = 24 * 3600
"""A partial file or folder older than this was left by a process that was killed."""
_PARTIAL = re.compile(r"\..+\.[0-9a-f]{32}\.partial")


@contextmanager
def staged_file(final: Path) -> Iterator[Path]:
    """Yields a path to write; on a normal exit that file replaces ``final``."""
    with _partial(final) as partial:
        yield partial
        _flush(partial)
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
    with _partial(final) as partial:
        partial.mkdir()
        yield partial


@contextmanager
def staged_directory(final: Path) -> Iterator[Path]:
    """Yields an empty folder to fill; on a normal exit it replaces ``final``."""
    with scratch_directory(final) as partial:
        yield partial
        publish_directory(partial, final)


def publish_directory(source: Path, target: Path) -> None:
    """Gives a finished folder its final name, on the same file system, once every byte of it is on disk.

    Folders cannot replace each other in one step: an older ``target`` steps aside until the new one is in its place.
    """
    for path in [*source.rglob("*"), source]:
        _flush(path)
    if target.exists():
        _swap(source, target)
    else:
        source.replace(target)
    _flush(target.parent)


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


@contextmanager
def _partial(final: Path) -> Iterator[Path]:
    _remove_abandoned(final.parent)
    partial = _partial_name(final)
    try:
        yield partial
    finally:
        remove(partial)


def _partial_name(final: Path) -> Path:
    return final.with_name(f".{final.name}.{uuid.uuid4().hex}.partial")


def _remove_abandoned(directory: Path) -> None:
    oldest = time.time() - ABANDONED_SECONDS
    for path in directory.glob(".*.partial"):
        # Its owner may be removing it at this moment, or it may be another user's.
        with suppress(FileNotFoundError, PermissionError):
            if _PARTIAL.fullmatch(path.name) and path.lstat().st_mtime < oldest:
                remove(path)


def _swap(source: Path, target: Path) -> None:
    aside = _partial_name(target)
    target.replace(aside)
    try:
        source.replace(target)
    except OSError:
        aside.replace(target)
        raise
    remove(aside)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
