"""``manage.py`` in a process of its own that is a fork: it has the training libraries already."""

import os
import runpy
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.forkserver import SERVER, become


class Forked:
    """What the tests need of ``subprocess.Popen``, for a program in Python; the leader of a session of its own."""

    def __init__(self, program: Path, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self.args = [str(program), *arguments]
        self._folder = tempfile.TemporaryDirectory(prefix="forked-")
        self._told = [Path(self._folder.name, name) for name in ("stdout", "stderr")]
        self._process = SERVER.Process(target=_become, args=(self.args, dict(environment), self._told))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        output, errors = (path.read_text(encoding="utf-8") for path in self._told)
        return output, errors


def _become(arguments: list[str], environment: dict[str, str], told: list[Path]) -> None:
    become(arguments, environment, told)
    runpy.run_path(arguments[0], run_name="__main__")
