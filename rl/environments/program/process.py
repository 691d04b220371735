"""A program of the operator's, started by its arguments without a shell, and ended with all that it has started.

Programs do not outlive the process that started them, whatever kills it: a child of ours reads the numbers of their
groups, ``+123`` and ``-123``, from a pipe. The end of the pipe is our end, and then it kills the groups that are left."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import IO, Final

from rl.base.errors import UsageError

_START: Final = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class Keeper:
    def __init__(self) -> None:
        self._lock = Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START],
            stdin=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Before its number is given to somebody else."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        assert self._process.stdin  # noqa: S101  it was asked for
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin  # noqa: S101  it was asked for
        with self._lock, suppress(OSError, ValueError):
            self._process.stdin.write(line)
            self._process.stdin.flush()


KEPT_BYTES = 65536
"""The end of standard output, and of standard error."""
POLL_SECONDS = 0.05
_ROUNDS = 100
"""Looks for processes that go on starting others while they are killed; a look takes some milliseconds."""
MARK = "RATCHET_PROGRAM"
"""The variable by which a process shows whose it is, wherever it has gone."""


class Process:
    """The leader of a group of its own. Its standard input is ``stdin`` and then over."""

    def __init__(
        self, command: Sequence[str], folder: Path, variables: Mapping[str, str], stdin: str, keeper: Keeper
    ) -> None:
        """Raises UsageError for a command that cannot be started."""
        self._mark = secrets.token_hex(16)
        try:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**variables, MARK: self._mark},
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"the command {command[0]!r} cannot be started: {why}") from None
        self._keeper = keeper
        keeper.watch(self._process.pid)
        self._output, self._errors = PipeTail(self._process.stdout), PipeTail(self._process.stderr)
        Thread(target=_write, args=(self._process.stdin, stdin), daemon=True).start()

    def wait(self, seconds: float) -> int | None:
        """The exit code, negative for a signal; None where it goes on after that time."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def wait_unless(self, stopped: Event, seconds: float) -> int | None:
        """The same, but that nobody waits any longer once it is stopped."""
        until, code = time.monotonic() + seconds, None
        while code is None and not stopped.is_set() and time.monotonic() < until:
            code = self.wait(POLL_SECONDS)
        return code

    def end(self) -> None:
        """Kills the whole group, whether its leader still lives or not, and what has left it but for its environment."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for _ in range(_ROUNDS):
            if not sum(_kill_marked(process, self._mark) for process in Path("/proc").glob("[0-9]*")):
                break
        self._keeper.forget(self._process.pid)

    @property
    def output(self) -> str:
        """The end of what it wrote to standard output; call ``end`` first."""
        return self._output.text()

    @property
    def errors(self) -> str:
        return self._errors.text()


def _kill_marked(process: Path, mark: str) -> bool:
    """Whether the process had the mark, and did not end by itself meanwhile. ``process``: its folder below /proc."""
    with suppress(OSError):
        descriptor = os.pidfd_open(int(process.name))  # its number may be given to another one
        try:
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
        finally:
            os.close(descriptor)
    return False


class PipeTail:
    """The last bytes of a pipe, however much comes through it."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        assert pipe  # noqa: S101  it was asked for
        self._kept = b""
        self._thread = Thread(target=self._drain, args=(pipe,), daemon=True)
        self._thread.start()

    def text(self) -> str:
        self._thread.join(1.0)  # a child in a group of its own may hold the pipe open
        return self._kept.decode(errors="replace").replace("\0", "")

    def _drain(self, pipe: IO[bytes]) -> None:
        with pipe:
            while chunk := pipe.read(KEPT_BYTES):
                self._kept = (self._kept + chunk)[-KEPT_BYTES:]


def _write(pipe: IO[bytes] | None, text: str) -> None:
    assert pipe  # noqa: S101  it was asked for
    with suppress(OSError), pipe:
        unsent = memoryview(text.encode())
        while unsent:
            unsent = unsent[pipe.write(unsent) :]
