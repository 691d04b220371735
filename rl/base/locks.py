"""Locks that the operating system lets go of when their holder dies: one run per device, one fetch of a model."""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_SECONDS = 1.0


@contextmanager
def device_lock(directory: Path, device: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Waits until no other process trains on ``device``; calls ``waiting`` every second, which may raise to give up."""
    with exclusive_lock(directory / f"{device}.lock", waiting):
        yield


@contextmanager
def exclusive_lock(file: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Waits until no other process holds ``file``, which is made where it is not there; ``waiting`` as above."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
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
