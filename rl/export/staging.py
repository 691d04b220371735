"""Writes an export beside its final place and moves it there whole, or leaves nothing behind.

A half-written model looks like a model to whatever loads it, so nothing appears under its final name before every byte of
it is on disk, and a failure (a full disk above all) removes what was written and becomes one ExportFailed.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from rl.errors import ExportFailed

_MARGIN_BYTES = 1 << 20
"""Kept free beyond the estimate, for small files and the file system's own blocks."""
_ABANDONED_SECONDS = 24 * 3600
"""A partial export older than this was left by a process that was killed."""
_FULL = ("no space left", "disk quota exceeded", "file too large", "requested and")
"""The last is numpy's ``tofile``, whose OSError carries no errno."""


@contextmanager
def staged_file(final: Path) -> Iterator[Path]:
    """Yields a path to write; on a normal exit that file replaces ``final``."""
    with _partial(final) as partial:
        yield partial
        _flush(partial)
        partial.chmod(0o644)
        partial.replace(final)
        _flush(final.parent)


@contextmanager
def staged_directory(final: Path) -> Iterator[Path]:
    """Yields an empty directory to fill; on a normal exit it replaces ``final``, files readable by all."""
    with _partial(final) as partial:
        partial.mkdir()
        yield partial
        for path in partial.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
            _flush(path)
        _flush(partial)
        _swap(partial, final)
        _flush(final.parent)


@contextmanager
def scratch_directory(parent: Path, name: str) -> Iterator[Path]:
    """An empty directory under ``parent`` that is gone afterwards, whatever happens."""
    with _partial(parent / name) as partial:
        partial.mkdir()
        yield partial


def require_space(directory: Path, needed_bytes: int) -> None:
    """Raises ExportFailed when the file system of ``directory`` cannot take ``needed_bytes`` more."""
    free = shutil.disk_usage(directory).free
    if free < needed_bytes + _MARGIN_BYTES:
        raise ExportFailed(
            f"not enough space in {directory}: the export needs {_size(needed_bytes)}, {_size(free)} are free; "
            "free some space or choose another output directory"
        )


@contextmanager
def _partial(final: Path) -> Iterator[Path]:
    partial = final.with_name(f".{final.name}.{uuid.uuid4().hex[:12]}.partial")
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(final.parent)
        yield partial
    except Exception as error:
        # The tokenizers library tells of a failed write by a bare Exception, no subclass of it.
        if isinstance(error, (OSError, SafetensorError)) or type(error) is Exception:
            raise _write_failure(error, final.parent) from error
        raise
    finally:
        _remove(partial)


def _write_failure(error: Exception, directory: Path) -> ExportFailed:
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if full or any(sign in str(error).lower() for sign in _FULL):
        return ExportFailed(f"the disk of {directory} is full or a quota is reached; nothing was kept of this export")
    return ExportFailed(f"cannot write the export to {directory}: {str(error).splitlines()[0]}")


def _swap(partial: Path, final: Path) -> None:
    """Directories cannot replace each other in one step: the old one steps aside until the new one is in place."""
    if not final.exists():
        partial.replace(final)
        return
    aside = final.with_name(f".{final.name}.{uuid.uuid4().hex[:12]}.partial")
    final.replace(aside)
    try:
        partial.replace(final)
    except OSError:
        aside.replace(final)
        raise
    _remove(aside)


def _remove_abandoned(directory: Path) -> None:
    oldest = time.time() - _ABANDONED_SECONDS
    for path in directory.glob(".*.partial"):
        # Another export may remove its own partial file at this moment.
        with suppress(FileNotFoundError):
            if path.lstat().st_mtime < oldest:
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
