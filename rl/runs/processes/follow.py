"""Training in several processes, here or on several machines: starts the launcher, follows it, and brings back its result.

The worker (``worker.py``) reads the job from a file, tells of its progress by JSON lines, and writes the result to a file.
To stop, a file appears beside the job: the first process looks for it at each report, and all stop at the same step.
"""

import json
import math
import os
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any

from django.conf import settings

from rl.base import errors
from rl.base.errors import Interrupted, TrainingFailed
from rl.base.records import Report
from rl.base.training_result import TrainingResult
from rl.config.training_job import TrainingJob
from rl.runs import child_environment
from rl.runs.processes.launch import JOB, Launch, SharedJob, environment, write_job

FOLDER = "launch"
RESULT, FAILURE, STOP = "result.json", "failure.json", "stop"
END_SECONDS = 60.0
"""Time for processes to end by themselves after they were told to stop, or after their last sign of life since."""
_LAST_LINES = 400
"""Lines that are kept of what the processes print, the launcher's own summary at the end among them."""
_ERROR = re.compile(r"(?!torch\.distributed\.elastic)[\w.]*(Error|Exception|Interrupt): ")
_LOST = re.compile(r"(closed|reset) by peer|remote process exited|Broken pipe")
_KILLED = re.compile(r"\s*traceback : (Signal (?!15 )\d+ \(\w+\))")
"""A line of the launcher's summary on a killed process; with signal 15 the launcher itself ends those that are left."""


def train(method: str, launch: Launch, job: TrainingJob, report: Report) -> TrainingResult:
    """Trains as the method's ``train``. Raises what the first process does, and TrainingFailed when one breaks."""
    folder = job.output_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in (RESULT, FAILURE, STOP):
        (folder / name).unlink(missing_ok=True)
    command = launch.command(folder)
    write_job(folder, SharedJob(method, launch.expected, job))
    report("stage", {"name": "starting the processes"})
    if launch.machines > 1:
        report(
            "log",
            {"text": f"waits for {launch.machines - 1} more to come: python -m rl.runs.processes.join {folder} FILE"},
        )
    last: deque[str] = deque(maxlen=_LAST_LINES)
    try:
        with _environment(folder, job) as variables, _running_processes(command, last, variables) as process:
            stopped = _follow(process, folder, report)
            if stopped:
                raise stopped
            process.wait()
    finally:
        (folder / JOB).unlink(missing_ok=True)  # nobody can join any more
    return _read_result(folder, process.returncode, last)


@contextmanager
def _environment(folder: Path, job: TrainingJob) -> Iterator[dict[str, str]]:
    """All of ours where there is no site, whose secrets the workers need not know."""
    if not settings.configured:
        yield environment(os.environ)
        return
    with child_environment.of_workers(folder, needs_database=job.scorer is not None) as variables:
        yield environment(variables)


@contextmanager
def _running_processes(
    command: list[str], last: deque[str], variables: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Ended when the block is left, whatever happened."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
        start_new_session=True,
    )
    assert process.stderr is not None  # noqa: S101
    reader = threading.Thread(target=_keep, args=(process.stderr, last), daemon=True)
    reader.start()
    try:
        yield process
    finally:
        _end(process)
        reader.join(1)


def _follow(process: subprocess.Popen[str], folder: Path, report: Report) -> Interrupted | None:
    """Passes the reports on; what interrupted them, after the processes were told to stop. Processes that wait for others
    say nothing and hear nothing: they get END_SECONDS, and those that report get as long again from each report on."""
    stopped, deadline = None, math.inf
    for line in _lines(process):
        event = ("waiting", {}) if line is None else _parse_event(line)
        if time.monotonic() > deadline:
            break
        if event is None:
            continue
        try:
            report(*event)
        except Interrupted as stop:
            if stopped is None:
                stopped, deadline = stop, time.monotonic() + END_SECONDS
                (folder / STOP).write_text(str(stop), encoding="utf-8")
        if stopped and line is not None:
            deadline = time.monotonic() + END_SECONDS
    return stopped


def _lines(process: subprocess.Popen[str]) -> Iterator[str | None]:
    """Up to the end of the output, or of the process: its output stays open as long as any that it left behind has it.
    None after each second without a line."""
    lines: Queue[str] = Queue()

    def read(stream: IO[str]) -> None:
        for line in stream:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, args=(process.stdout,), daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=1)
        except Empty:
            if process.poll() is not None:
                return
            yield None
            continue
        if not line:
            return
        yield line


def _parse_event(line: str) -> tuple[str, dict[str, Any]] | None:
    """None for what libraries print."""
    with suppress(ValueError):
        document = json.loads(line)
        if isinstance(document, dict) and isinstance(document.get("event"), str):
            return document["event"], document["values"]
    return None


def _keep(stream: IO[str], last: deque[str]) -> None:
    for line in stream:
        if line.strip():
            last.append(line.rstrip()[:500])


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()  # the launcher ends its processes
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)


def _read_result(folder: Path, code: int, last: deque[str]) -> TrainingResult:
    if (folder / FAILURE).exists():
        failure = json.loads((folder / FAILURE).read_text(encoding="utf-8"))
        try:
            raise getattr(errors, failure["type"], TrainingFailed)(failure["text"])
        except TypeError:  # some errors are made of more than a text
            raise TrainingFailed(failure["text"]) from None
    if not (folder / RESULT).exists():
        raise TrainingFailed(f"a training process ended with exit code {code}: {_find_cause(last)}")
    return TrainingResult.load(folder / RESULT)


def _find_cause(last: Iterable[str]) -> str:
    """The first to fail makes the others fail, which lose it; one that was killed is only in the launcher's summary."""
    lines = list(last)
    errors = [line for line in lines if _ERROR.match(line)]
    own = [line for line in errors if not _LOST.search(line)]
    killed = [match[1] for line in lines if (match := _KILLED.match(line))]
    if killed and killed[0].startswith("Signal 9 "):
        killed[0] += " ended it, as the system does when memory runs out"
    return next(iter((*own, *killed, *errors, *lines[-1:])), "it said nothing")
