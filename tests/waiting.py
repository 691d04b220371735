"""Waiting for what happens by itself: no longer than needed, and as long as a busy machine may take."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from tests.deeds import SLEEP, WATCH

PATIENCE_SECONDS = 60.0
Found = TypeVar("Found")


def until(
    found: Callable[[], Found],
    seconds: float = PATIENCE_SECONDS,
    every: float = 0.02,
    sleep: Callable[[float], object] = time.sleep,
) -> Found:
    """What ``found`` gives, as soon as it is something. Fails after ``seconds``, PATIENCE_SECONDS at the least. Counts as a
    sleep also where it was there at once, which is luck."""
    WATCH.note(SLEEP)
    deadline = time.monotonic() + max(seconds, PATIENCE_SECONDS)
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not happen"
        sleep(every)
    return value


def stand_still(process: psutil.Process) -> None:
    """Stops it, and waits until each of its threads has: one may run for a moment after the signal was sent."""
    process.suspend()
    tasks = Path(f"/proc/{process.pid}/task")
    until(lambda: all(task.read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.glob("*/stat")))
