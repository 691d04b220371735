"""What every backend keeps to: the limits of a run, its result, and what a backend is.

A backend runs one program in a fresh box and returns when nothing of it is left: no process, file or descriptor. What the
program does, crash or run into a limit, is a ``Result``. That the box itself could not be made is ``SandboxUnavailable``.
Calls come from many threads at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal, Protocol

from rl.base.errors import UsageError

MIB = 2**20
Stopped = Literal["", "wall", "cpu", "memory", "files", "output"]
"""Which limit ended the run; empty when the program ended by itself or by a limit that it was told of (ENOSPC, EAGAIN)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Raises UsageError unless every limit is above zero."""

    wall_seconds: float = 10.0
    cpu_seconds: int = 10
    """CPU time of the whole tree, in whole seconds: RLIMIT_CPU for one process, the watch for the sum."""
    memory_bytes: int = 256 * MIB
    """The most that the tree may hold (sum of resident sizes, looked at every 50 ms), and each process may map."""
    processes: int = 32
    """Processes and threads at one time."""
    file_bytes: int = 16 * MIB
    """The largest size of one file."""
    disk_bytes: int = 32 * MIB
    """The size of everything that it writes, /tmp and /dev/shm together."""
    files: int = 4096
    """Files and folders at one time."""
    output_bytes: int = 256 * 1024
    """The length of stdout and of stderr, each. A program that writes more is ended."""

    @classmethod
    def of_seconds(cls, seconds: float) -> Limits:
        """So many seconds of the clock, and of CPU time as many whole ones, at least one."""
        return cls(wall_seconds=seconds, cpu_seconds=max(1, round(seconds)))

    def __post_init__(self) -> None:
        for limit in fields(self):
            if not getattr(self, limit.name) > 0:
                raise UsageError(f"the sandbox limit {limit.name} must be above zero, not {getattr(self, limit.name)}")


@dataclass(frozen=True, slots=True)
class Result:
    stdout: str
    """Decoded as UTF-8; other bytes become U+FFFD."""
    stderr: str
    exit: int
    """0 to 255, or the negative number of the signal that ended it: -9 whenever the sandbox did."""
    timed_out: bool
    """The wall-clock or the CPU time was used up."""
    truncated: bool
    """stdout or stderr was cut at ``output_bytes``."""
    duration: float
    """Wall-clock seconds."""
    stopped: Stopped = ""


class Backend(Protocol):
    """A class of ``BACKENDS`` (rl/sandbox/__init__.py), made once a process without arguments. Making it must be cheap:
    what is dear belongs into ``run``."""

    name: str

    def why_unavailable(self) -> str:
        """What is missing on this machine and how to get it, in one sentence; empty where ``run`` is worth a try. The
        self-test, the same for all backends, then looks whether it really holds (rl/sandbox/backends.py)."""
        ...

    def run(self, code: str, language: str, stdin: str, limits: Limits) -> Result:
        """``language`` is one of ``LANGUAGES``, checked by the caller."""
        ...


UNPRIVILEGED_ID: Final = 65534
"""The user and group that untrusted code has, inside; and outside too wherever this process is root."""
WATCH_SECONDS: Final = 0.05
"""How often a running box is looked at."""
OPEN_FILES: Final = 64
"""RLIMIT_NOFILE of each process: socket and pipe buffers are memory that no other limit sees."""
ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108
    "TMPDIR": "/tmp",  # noqa: S108
    "LANG": "C.UTF-8",
}
"""The whole environment of the program."""
