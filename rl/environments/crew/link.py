"""One worker, seen from the process that started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from rl.base.errors import TrainingFailed
from rl.environments.settings import EnvironmentSettings

_ROOT = Path(__file__).resolve().parents[3]
_START = "import sys; sys.path.insert(0, sys.argv[1]); from rl.environments.crew.worker import main; main()"
_CHUNK = 2**16
_DYING_SECONDS = 1.0
"""Between the end of a process's output and its own."""
_CLOSING_SECONDS = 5.0


class Link:
    """``ask``, then ``write`` and ``read`` when its pipes are ready, until nothing is ``owed``. Never blocks and, once it is
    made, never raises: what goes wrong with the worker is ``broken``, and the answer for all that is owed."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        """Raises TrainingFailed."""
        self._process = _start_worker()
        self.input, self.output = _pipe(self._process.stdin), _pipe(self._process.stdout)
        self._unsent, self._unread = bytearray(), bytearray()
        self._answers: dict[int, dict[str, Any]] = {}
        self._heard = time.monotonic()
        self.owed: set[int] = set()
        self.broken = ""
        self._send({"path": _search_path(), "settings": asdict(settings), "parent": os.getpid()})

    def ask(self, verb: str, episodes: Mapping[int, Mapping[str, Any]]) -> None:
        """``verb``: begin or act."""
        self.owed = set(episodes)
        self._heard = time.monotonic()
        if not self.broken:
            self._send([verb, list(episodes.items())])

    @property
    def has_more_to_write(self) -> bool:
        return bool(self._unsent)

    def write(self) -> None:
        try:
            del self._unsent[: os.write(self.input.fileno(), self._unsent)]
        except BlockingIOError:
            return
        except OSError:  # it died, and the end of its output says so
            self._unsent.clear()

    def read(self) -> bool:
        """Whether there may be more."""
        try:
            chunk = os.read(self.output.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        self._unread += chunk
        if b"\n" in chunk:
            *lines, self._unread = self._unread.split(b"\n")
            self._take_answers(lines)
        if not chunk:
            self._record_death()
        return not self.broken

    def look_after(self, silence_seconds: float) -> None:
        """Between two readings: has it died while what it has forked holds its output open, or does it hang?"""
        if self.broken:
            return
        if self._process.poll() is not None:
            while self.read():
                pass
            if not self.broken:
                self._record_death()
        elif self.owed and time.monotonic() - self._heard > silence_seconds:
            self._stop(f"the worker that ran it did not answer within {silence_seconds:g} seconds and was stopped")

    def answers(self) -> dict[int, dict[str, Any]]:
        """The answers that came since the last time."""
        answers, self._answers = self._answers, {}
        if self.broken:
            answers |= {index: {"broken": self.broken} for index in self.owed}
            self.owed = set()
        return answers

    def begin_to_close(self) -> None:
        """It ends by itself."""
        with suppress(OSError):
            self.input.close()

    def close(self) -> None:
        if self.output.closed:
            return
        self.begin_to_close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSING_SECONDS)
        self._kill()

    def _send(self, document: Any) -> None:
        self._unsent += json.dumps(document).encode() + b"\n"

    def _take_answers(self, lines: list[bytearray]) -> None:
        for line in lines:
            try:
                index, document = json.loads(line)
                self.owed.remove(index)
            except (ValueError, TypeError, LookupError, RecursionError):
                self._stop("the worker that ran it wrote what cannot be read and was stopped")
                return
            self._answers[index] = document
            self._heard = time.monotonic()

    def _record_death(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_DYING_SECONDS)
        self._kill()
        code = self._process.returncode
        self.broken = f"the worker that ran it died ({f'signal {-code}' if code < 0 else f'exit code {code}'})"

    def _stop(self, why: str) -> None:
        self._kill()
        self.broken = why

    def _kill(self) -> None:
        """It and what its tools have started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self.input, self.output):
            with suppress(OSError):
                pipe.close()


def _start_worker() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-c", _START, str(_ROOT)]
    try:
        return subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise TrainingFailed(f"a worker for environments cannot be started: {error.strerror or error}") from error


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe  # noqa: S101 - both were asked for
    os.set_blocking(pipe.fileno(), False)
    return pipe


def _search_path() -> list[str]:
    """Whatever this process imports, its workers import too."""
    return [str(entry or Path.cwd()) for entry in sys.path]
