"""When the gateway last had a request: one file's time, so that a training in another process sees it at once."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from django.conf import settings


def note_request() -> None:
    """Cheap enough for every request and every piece of a stream; a disk that refuses holds nobody up."""
    path = _path()
    with suppress(OSError):
        try:
            path.touch()
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def seconds_since_request() -> float | None:
    """None when there was none yet."""
    try:
        return max(0.0, time.time() - _path().stat().st_mtime)
    except FileNotFoundError:
        return None


def _path() -> Path:
    return settings.DATA_DIR / "gateway" / "last_request"
