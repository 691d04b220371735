"""Looks at what a tree of processes holds and has used, read from /proc, and reads what a running program writes, never more
than allowed; and ends it when a limit is reached."""

import os
import select
import selectors
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rl.sandbox.contract import WATCH_SECONDS, Limits, Stopped

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_FIRST_FIELD, _RESIDENT = 3, 24
"""Numbers of fields of /proc/PID/stat, as proc(5) counts them."""
GONE = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    memory_bytes: int = 0
    """Sum of the resident sizes: pages that processes share count for each of them."""
    cpu_seconds: float = 0.0
    """With that of children that ended and were waited for."""
    pids: tuple[int, ...] = ()


def usage(root: int) -> ResourceUsage:
    memory, cpu, pids = 0, 0.0, []
    for pid in descendants(root):
        with suppress(*GONE):
            stat = stat_of(f"/proc/{pid}")
            cpu += sum(int(stat[field - _FIRST_FIELD]) for field in (14, 15, 16, 17)) / _TICKS
            memory += _resident_pages(pid, stat) * _PAGE_BYTES
            pids.append(pid)
    return ResourceUsage(memory, cpu, tuple(pids))


def stat_of(folder: str) -> list[str]:
    """The fields after the command's name, which stands in brackets and may hold anything (proc(5))."""
    return Path(f"{folder}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _resident_pages(pid: int, stat: list[str]) -> int:
    """A process whose first thread has ended before the others seems to hold nothing, and is not a zombie: they hold it."""
    if stat[0] != "Z":
        return int(stat[_RESIDENT - _FIRST_FIELD])
    held = [0]
    for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        with suppress(*GONE):
            held.append(int(stat_of(f"/proc/{pid}/task/{task}")[_RESIDENT - _FIRST_FIELD]))
    return max(held)


def descendants(root: int) -> Iterator[int]:
    """The root first. What has been orphaned belongs to the root too where that is the first of a PID namespace."""
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children(pid)


def kill_tree(root: int) -> None:
    """The last first: a parent may wait for its child for ever."""
    for pid in reversed(list(descendants(root))):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


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

    False when it is still there after ``seconds``."""
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


_CHUNK: Final = 65536


@dataclass(slots=True)
class Stream:
    """Keeps the first ``limit`` bytes of a pipe."""

    descriptor: int
    limit: int
    data: bytearray = field(default_factory=bytearray)
    overflowed: bool = False

    def read(self) -> bool:
        """What there is now; False at the end of the pipe."""
        chunk = os.read(self.descriptor, _CHUNK)
        room = self.limit - len(self.data)
        self.data += chunk[:room]
        self.overflowed |= len(chunk) > room
        return bool(chunk)


@dataclass(slots=True)
class Watch:
    """One run. ``look`` says what the box uses and holds now, ``kill`` ends all of it at once."""

    limits: Limits
    kill: Callable[[], None]
    look: Callable[[], tuple[ResourceUsage, int]]
    """Usage of the tree, and the number of its files."""
    stopped: Stopped = ""
    _seen: float = 0.0
    """CPU seconds of the tree at the last look."""
    _lost: float = 0.0
    """Those of processes that have ended and that nobody waited for: the kernel forgets them."""

    def follow(self, *streams: Stream, until: Stream) -> None:
        """To the end of all, which is when the last process that holds them is gone. ``until`` ends with the program: then
        what it left behind is killed."""
        now = time.monotonic()
        deadline, next_look = now + self.limits.wall_seconds, now + WATCH_SECONDS
        with selectors.DefaultSelector() as selector:
            for stream in (*streams, until):
                selector.register(stream.descriptor, selectors.EVENT_READ, stream)
            while selector.get_map():
                for key, _ in selector.select(max(0.0, min(deadline, next_look) - time.monotonic())):
                    if not key.data.read():
                        selector.unregister(key.fd)
                        if key.data is until:
                            self.kill()
                now = time.monotonic()
                self._stop("wall", now >= deadline)
                self._stop("output", any(stream.overflowed for stream in streams))
                if now >= next_look:
                    next_look = now + WATCH_SECONDS
                    self._look()
                if self.stopped:
                    deadline = next_look = now + WATCH_SECONDS

    def _look(self) -> None:
        used, files = self.look()
        if used.cpu_seconds < self._seen:  # or what ended just then is not yet in its parent's sum
            used, files = self.look()
        self._lost += max(0.0, self._seen - used.cpu_seconds)
        self._seen = used.cpu_seconds
        self._stop("memory", used.memory_bytes > self.limits.memory_bytes)
        self._stop("cpu", used.cpu_seconds + self._lost > self.limits.cpu_seconds)
        self._stop("files", files > self.limits.files)

    def _stop(self, reason: Stopped, reached: bool) -> None:
        if reached and not self.stopped:
            self.stopped = reason
            self.kill()
