"""Pipes, files in memory and resource limits of a box, what it ends with, and the sandbox's own processes: a small Python
that has nothing of this one, and imports none of its packages."""

import fcntl
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rl.sandbox import programs
from rl.sandbox.contract import OPEN_FILES, Limits, Result, Stopped
from rl.sandbox.watching import Stream

MARSHAL_VERSION: Final = 4
"""marshal's version for what the processes are sent: they may run a system's Python of another version."""
_START: Final = """\
import sys
fresh = set(sys.modules)
for name, folder in ("rl", ".."), ("rl.sandbox", "."):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [folder]
from rl.sandbox import {module}
control, parent = map(int, sys.argv[1:])
{module}.{call}
"""


def start(
    module: str, call: str, channel: int, environment: Mapping[str, str], stdin: int, stdout: int, stderr: int
) -> subprocess.Popen[bytes]:
    """``call`` may use ``control`` (the descriptor of the channel), ``parent`` (this PID) and ``fresh`` (the modules of a
    new interpreter)."""
    python = programs.interpreter("python").command[0]
    return subprocess.Popen(
        [
            python,
            *programs.PYTHON_OPTIONS,
            "-c",
            _START.format(module=module, call=call),
            str(channel),
            str(os.getpid()),
        ],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=(channel,),
        env=dict(environment),
        cwd=Path(__file__).parent,
        start_new_session=True,
    )


unforked: Final = threading.RLock()
"""To be held while the other end of a pipe is open here: a process that is forked meanwhile would keep it open, and whoever
waits for the end of the pipe would wait for that process too."""
os.register_at_fork(before=unforked.acquire, after_in_parent=unforked.release, after_in_child=unforked.release)

_ALL_SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    """Its reading end belongs to ``ours``, its writing end to ``theirs``."""
    read, write = os.pipe()
    ours.callback(os.close, read)
    theirs.callback(os.close, write)
    return read, write


def make_sealed_file(stack: ExitStack, content: str | bytes) -> int:
    """A file in memory that nobody can change, not even a program that finds it as its standard input. Half surrogates,
    which no UTF-8 text can hold, become question marks."""
    descriptor = os.memfd_create("sandbox", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content if isinstance(content, bytes) else content.encode(errors="replace"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _ALL_SEALS)
    return descriptor


def resource_limits(limits: Limits, processes: int) -> list[tuple[int, int, int]]:
    """Resource, soft and hard limit. ``processes``: what RLIMIT_NPROC has to be where this box counts."""
    return [
        (resource.RLIMIT_NPROC, processes, processes),
        (resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
        (resource.RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES),
        (resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
    ]


def read_status(status: Stream, word: str) -> str | None:
    """What stands after ``word``, of the lines that one of the sandbox's own processes has written."""
    for line in status.data.decode(errors="replace").splitlines():
        first, _, rest = line.partition(" ")
        if first == word:
            return rest
    return None


def result(stopped: Stopped, code: int, out: Stream, err: Stream, duration: float) -> Result:
    """``code``: how the program ended by itself; whatever a limit ended has been killed."""
    if code == -signal.SIGXCPU and not stopped:
        stopped = "cpu"
    elif stopped:
        code = -signal.SIGKILL
    return Result(
        stdout=out.data.decode(errors="replace"),
        stderr=err.data.decode(errors="replace"),
        exit=code,
        timed_out=stopped in ("wall", "cpu"),
        truncated=out.overflowed or err.overflowed,
        duration=duration,
        stopped=stopped,
    )
