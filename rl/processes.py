"""Processes that a row names: is this one still there?"""

from __future__ import annotations

import psutil


def find_process(pid: int | None, started: float | None) -> psutil.Process | None:
    """The live process with this number and start time (seconds since 1970), because numbers are used again."""
    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - (started or 0)) < 1.0
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None
