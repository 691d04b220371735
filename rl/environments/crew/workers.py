"""In several processes."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from rl.base.errors import TrainingFailed, UsageError
from rl.environments.crew.stage import BEAT_SECONDS, Crew
from rl.environments.settings import EnvironmentSettings

SILENCE_SECONDS = 600.0
"""Time for one episode's step: longer than all tests of a task may take."""
_ROOT = Path(__file__).resolve().parents[3]
_START = "import sys; sys.path.insert(0, sys.argv[1]); from rl.environments.crew.stage import main; main()"


class Workers(Crew):
    """In processes, which are dealt the episodes in turn. The workers run side by side; the episodes of one worker run one
    after the other."""

    def __init__(
        self, settings: EnvironmentSettings, workers: int, alive: Callable[[], None], silence_seconds: float
    ) -> None:
        super().__init__(alive)
        if workers < 1:
            raise UsageError(f"the number of workers must be 0 or more, not {workers}")
        self._settings, self._workers, self._silence_seconds = settings, workers, silence_seconds
        self._links: dict[int, Link] = {}

    def close(self) -> None:
        for link in self._links.values():
            link.begin_to_close()
        for link in self._links.values():
            link.close()
        self._links = {}

    def _ask(self, verb: str, documents: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        for link in self._links.values() if verb == "begin" else ():
            link.look_after(self._silence_seconds)
        for number in range(min(self._workers, len(documents))) if verb == "begin" else ():
            if number not in self._links or self._links[number].broken:
                self._links[number] = Link(self._settings)
        for number, link in self._links.items():
            own = {index: document for index, document in documents.items() if index % self._workers == number}
            link.ask(verb, own)
        answers: dict[int, dict[str, Any]] = {}
        while busy := [link for link in self._links.values() if link.owed]:
            self._exchange([link for link in busy if not link.broken])
            self._beat()
            for link in busy:
                link.look_after(self._silence_seconds)
                answers |= link.answers()
            if refused := [document["refused"] for document in answers.values() if "refused" in document]:
                raise UsageError(refused[0])
        return answers

    def _exchange(self, links: Sequence[Link]) -> None:
        """Waits until a pipe is ready, a moment at most."""
        with selectors.DefaultSelector() as selector:
            for link in links:
                selector.register(link.output, selectors.EVENT_READ, link.read)
                if link.unsent:
                    selector.register(link.input, selectors.EVENT_WRITE, link.write)
            for ready, _ in selector.select(BEAT_SECONDS) if links else ():
                if not ready.fileobj.closed:  # type: ignore[union-attr]
                    ready.data()


class Link:
    """One worker, seen from the process that started it: ``ask``, then ``write`` and ``read`` when its pipes are ready,
    until nothing is ``owed``. Never blocks and, once it is made, never raises: what goes wrong with the worker is
    ``broken``, and the answer for all that is owed."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        """Raises TrainingFailed."""
        command = [sys.executable, "-P", "-c", _START, str(_ROOT)]
        try:
            self._process = subprocess.Popen(
                command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise TrainingFailed(f"a worker for environments cannot be started: {error.strerror or error}") from error
        self.input, self.output = _pipe(self._process.stdin), _pipe(self._process.stdout)
        self.unsent, self._unread = bytearray(), bytearray()
        self._answers: dict[int, dict[str, Any]] = {}
        self._heard = time.monotonic()
        self.owed: set[int] = set()
        self.broken = ""
        path = [str(entry or Path.cwd()) for entry in sys.path]  # whatever this process imports, its workers import too
        self._send({"path": path, "settings": asdict(settings), "parent": os.getpid()})

    def ask(self, verb: str, episodes: Mapping[int, Mapping[str, Any]]) -> None:
        """``verb``: begin or act."""
        self.owed = set(episodes)
        self._heard = time.monotonic()
        if not self.broken:
            self._send([verb, list(episodes.items())])

    def write(self) -> None:
        try:
            del self.unsent[: os.write(self.input.fileno(), self.unsent)]
        except BlockingIOError:
            return
        except OSError:  # it died, and the end of its output says so
            self.unsent.clear()

    def read(self) -> bool:
        """Whether there may be more."""
        try:
            chunk = os.read(self.output.fileno(), 2**16)
        except BlockingIOError:
            return False
        self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n") if b"\n" in chunk else [self._unread]
        for line in lines:
            try:
                index, document = json.loads(line)
                self.owed.remove(index)
            except (ValueError, TypeError, LookupError, RecursionError):
                self._stop("the worker that ran it wrote what cannot be read and was stopped")
                return False
            self._answers[index], self._heard = document, time.monotonic()
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
            self._process.wait(5.0)
        self._kill()

    def _send(self, document: Any) -> None:
        self.unsent += json.dumps(document).encode() + b"\n"

    def _record_death(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # between the end of its output and its own
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


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe  # noqa: S101 - both were asked for
    os.set_blocking(pipe.fileno(), False)
    return pipe
