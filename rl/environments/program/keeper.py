"""Programs do not outlive the process that started them, whatever kills it.

A child of ours reads the numbers of their groups, ``+123`` and ``-123``, from a pipe. The end of the pipe is our end, and
then it kills the groups that are left.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from threading import Lock
from typing import Final

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
