"""Exports appear whole or not at all; a disk that refuses (a full one above all) is one ExportFailed.

A half-written model looks like a model to whatever loads it."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from rl.base import files
from rl.base.disk_space import readable_size
from rl.base.errors import ExportFailed

_MARGIN_BYTES = 1 << 20
"""Kept free beyond the estimate, for small files and the file system's own blocks."""
_FULL = ("no space left", "disk quota exceeded", "file too large", "requested and")
"""The last is numpy's ``tofile``, whose OSError carries no errno."""


@contextmanager
def staged_file(final: Path) -> Iterator[Path]:
    """Yields a path to write; on a normal exit that file replaces ``final``."""
    with _into(final.parent), files.staged_file(final) as partial:
        yield partial


@contextmanager
def staged_directory(final: Path) -> Iterator[Path]:
    """Yields an empty directory to fill; on a normal exit it replaces ``final``."""
    with _into(final.parent), files.staged_directory(final) as partial:
        yield partial


@contextmanager
def scratch_directory(parent: Path, name: str) -> Iterator[Path]:
    """An empty directory under ``parent`` that is gone afterwards, whatever happens."""
    with _into(parent), files.scratch_directory(parent / name) as partial:
        yield partial


def require_space(directory: Path, needed_bytes: int) -> None:
    """Raises ExportFailed when the file system of ``directory`` cannot take ``needed_bytes`` more."""
    free = shutil.disk_usage(directory).free
    if free < needed_bytes + _MARGIN_BYTES:
        sizes = f"the export needs {readable_size(needed_bytes)}, {readable_size(free)} are free"
        raise ExportFailed(
            f"not enough space in {directory}: {sizes}; free some space or choose another output directory"
        )


@contextmanager
def _into(directory: Path) -> Iterator[None]:
    """Makes the directory, and tells of whatever keeps the export from being written there as ExportFailed."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except Exception as error:
        # The tokenizers library tells of a failed write by a bare Exception, not a subclass of it.
        if isinstance(error, (OSError, SafetensorError)) or type(error) is Exception:
            raise _write_failure(error, directory) from error
        raise


def _write_failure(error: Exception, directory: Path) -> ExportFailed:
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if full or any(sign in str(error).lower() for sign in _FULL):
        return ExportFailed(f"the disk of {directory} is full or a quota is reached; nothing was kept of this export")
    return ExportFailed(f"cannot write the export to {directory}: {str(error).splitlines()[0]}")
