"""One run per device: a lock that the operating system lets go of when its holder dies."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_SECONDS = 1.0


@contextmanager
def device_lock(directory: Path, device: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Waits until no other process trains on ``device``; calls ``waiting`` every second, which may raise to give up."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{device}.lock").open("w") as handle:
        while not try_lock(handle.fileno()):
            waiting()
            time.sleep(POLL_SECONDS)
        yield


def try_lock(descriptor: int) -> bool:
    """Takes the file's lock, for as long as it is open; False where somebody else has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
