"""Processes that a row names: is this one still there? And those that may not outlive their parent."""

import ctypes
import os
import signal
import sys
from typing import Final

import psutil

_PR_SET_PDEATHSIG: Final = 1


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


def die_with(parent: int) -> None:
    """This process is killed when the thread of its parent that started it ends. ``parent``: the number that it had, as it
    may have ended already. On Linux; elsewhere nothing happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
