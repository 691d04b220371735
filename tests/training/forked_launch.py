"""A launcher and its workers as forks that have the training libraries already: started, each imports them for seconds.

The launcher is torch's own. Only how it starts a process is another.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.forkserver import SERVER, become

FORK = multiprocessing.get_context("fork")


class _Process:
    """What the launchers need of ``subprocess.Popen``."""

    def __init__(self, process: Any) -> None:
        self._process = process
        process.start()
        self.pid: int = process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return self.returncode

    def terminate(self) -> None:
        with suppress(ProcessLookupError):  # as ``Popen``: it may have ended just now
            os.kill(self.pid, signal.SIGTERM)


class Launcher(_Process):
    """In the place of ``launching.subprocess.Popen``, for ``python -m MODULE ...`` with pipes."""

    def __init__(self, command: list[str], *, env: Mapping[str, str], **options: object) -> None:
        with tempfile.TemporaryDirectory(prefix="launcher-") as folder:
            pipes = [Path(folder, name) for name in ("stdout", "stderr")]
            for pipe in pipes:
                os.mkfifo(pipe)
            super().__init__(SERVER.Process(target=_launch, args=(command[2:], dict(env), pipes)))
            self.stdout, self.stderr = (pipe.open(encoding="utf-8") for pipe in pipes)


def _launch(arguments: list[str], environment: dict[str, str], files: list[Path]) -> None:
    become(arguments, environment, files)
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    SubprocessHandler._popen = lambda self, command, env: _Process(FORK.Process(target=_work, args=(command[2:], env)))
    if arguments[0] == "rl.runs.processes.join":
        subprocess.call = _go_on  # type: ignore[assignment]
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def _go_on(command: list[str], *, env: Mapping[str, str]) -> int:
    """As the launcher that ``rl.runs.processes.join`` would start and wait for."""
    sys.argv = command[2:]
    os.environ.update(env)
    try:
        runpy.run_module(command[2], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _work(arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    become(arguments, environment, ())
    runpy.run_path(arguments[0], run_name="__main__")
