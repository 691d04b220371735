"""When a request may be sent: a limit per minute, and the waits between tries."""

from __future__ import annotations

import json
import logging
import math
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import IO

LONGEST_WAIT = 60.0
"""Seconds before another try; a server that asks for more is not asked again."""
_MINUTE = 60.0
_FARTHEST = 15 * _MINUTE
"""A turn that lies farther ahead was taken before somebody set the clock back."""
log = logging.getLogger(__name__)
_lock = threading.Lock()
_own: defaultdict[Path, list[float]] = defaultdict(list)
"""The turns of this process alone, where they cannot be written down."""


def take_turn(folder: Path, host: str, per_minute: int | None) -> None:
    """Returns when another request to ``host`` is within the limit, None: none, of all processes that share ``folder``."""
    if per_minute is None:
        return
    with _turns(folder / f".{host}.turns") as turns:
        now = time.time()
        turns[:] = sorted(turn for turn in turns if now - _MINUTE < turn < now + _FARTHEST)
        turn = max(now, turns[-per_minute] + _MINUTE) if len(turns) >= per_minute else now
        turns.append(turn)
    pause(turn - now)


@contextmanager
def _turns(path: Path) -> Iterator[list[float]]:
    """When requests were or will be sent, in seconds since 1970; what becomes of the list is kept."""
    try:
        file = _open_locked(path)
    except OSError as error:
        log.warning("%s cannot be written, so every process counts for itself: %s", path, error.strerror or error)
        with _lock:
            yield _own[path]
        return
    with file:
        turns = _read(file)
        yield turns
        file.truncate(0)
        json.dump(turns, file)


def _open_locked(path: Path) -> IO[str]:
    """Until it is closed. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+", encoding="utf-8")
    flock(file, LOCK_EX)
    return file


def _read(file: IO[str]) -> list[float]:
    """Nothing where it is damaged."""
    file.seek(0)
    try:
        turns = json.load(file)
    except (ValueError, RecursionError):
        return []
    return (
        [turn for turn in turns if isinstance(turn, float) and math.isfinite(turn)] if isinstance(turns, list) else []
    )


def wait_before_retry(number: int, factor: float, retry_after: str) -> float:
    """Seconds; ``number`` counts the tries so far."""
    return max(min(factor * 2 ** (number - 1), LONGEST_WAIT), _seconds(retry_after))


def pause(seconds: float) -> None:
    time.sleep(seconds)


def _seconds(retry_after: str) -> float:
    """Reads both forms of the header; 0 for what is neither."""
    if re.fullmatch(r"[0-9]{1,9}", retry_after):
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
        return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return 0.0
