"""What a tree of processes holds and has used, read from /proc; and how it is ended."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_FIRST_FIELD, _RESIDENT = 3, 24
"""Numbers of fields of /proc/PID/stat, as proc(5) counts them."""
GONE = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True, slots=True)
class Usage:
    memory_bytes: int = 0
    """Sum of the resident sizes: pages that processes share count for each of them."""
    cpu_seconds: float = 0.0
    """With that of children that ended and were waited for."""
    pids: tuple[int, ...] = ()


def usage(root: int) -> Usage:
    memory, cpu, pids = 0, 0.0, []
    for pid in descendants(root):
        with suppress(*GONE):
            stat = _stat(f"/proc/{pid}")
            cpu += sum(int(stat[field - _FIRST_FIELD]) for field in (14, 15, 16, 17)) / _TICKS
            memory += _resident_pages(pid, stat) * _PAGE_BYTES
            pids.append(pid)
    return Usage(memory, cpu, tuple(pids))


def _stat(folder: str) -> list[str]:
    """The fields after the command's name, which stands in brackets and may hold anything (proc(5))."""
    return Path(f"{folder}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _resident_pages(pid: int, stat: list[str]) -> int:
    """A process whose first thread has ended before the others seems to hold nothing, and is not a zombie: they hold it."""
    if stat[0] != "Z":
        return int(stat[_RESIDENT - _FIRST_FIELD])
    held = [0]
    for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        with suppress(*GONE):
            held.append(int(_stat(f"/proc/{pid}/task/{task}")[_RESIDENT - _FIRST_FIELD]))
    return max(held)


def descendants(root: int) -> Iterator[int]:
    """The root first. What has been orphaned belongs to the root too where that is the first of a PID namespace."""
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children(pid)


def files_in(pid: int, folder: str, size: int) -> int:
    """Files and folders on the file system of ``size`` bytes that a process sees at ``folder``; 0 while it is not there."""
    try:
        file_system = os.statvfs(f"/proc/{pid}/root{folder}")
    except OSError:
        return 0
    # Until the box is ready the process sees this machine's own folder.
    is_ours = 0 <= file_system.f_blocks * file_system.f_frsize - size < _PAGE_BYTES
    return file_system.f_files - file_system.f_ffree if is_ours else 0


def end(pidfd: int, seconds: float) -> bool:
    """Kills a process and waits until it is gone. The first of a PID namespace is gone only after all others in it.

    False when it is still there after ``seconds``.
    """
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def children(pid: int) -> list[int]:
    pids: list[int] = []
    with suppress(*GONE):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (twenty times a second)
            with suppress(*GONE):
                pids += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return pids
