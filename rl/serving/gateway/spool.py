"""The folder in which answers wait: ``DATA_DIR/gateway/pending/``. Files of finished ones appear whole."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings

FINISHED: Final = ".json"
log = logging.getLogger(__name__)


def folder() -> Path:
    return settings.DATA_DIR / "gateway" / "pending"


def path_of(trace_id: UUID, suffix: str = FINISHED) -> Path:
    return folder() / f"{trace_id}{suffix}"


def write(trace_id: UUID, document: Mapping[str, Any]) -> None:
    """Raises OSError, and leaves nothing behind then."""
    partial = folder() / f".{trace_id}.partial"
    descriptor = create(partial)
    try:
        write_whole(descriptor, as_line(document))
        partial.replace(path_of(trace_id))
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def as_line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def write_whole(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def set_aside(path: Path, error: Exception) -> None:
    """A file that cannot be stored; a person looks at it."""
    log.error("the answer in %s cannot be stored (%s); it is set aside as *.broken", path, type(error).__name__)
    with suppress(FileNotFoundError):
        path.rename(path.with_name(f"{path.name}.broken"))


def create(path: Path, more_flags: int = 0) -> int:
    """A new file of our own, open. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | more_flags
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(path, flags, 0o600)
