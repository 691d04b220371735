"""Training in several processes, here or on several machines: starts the launcher, follows it, and brings back its result.

The worker (``worker.py``) reads the job from a file, tells of its progress by JSON lines, and writes the result to a file.
To stop, a file appears beside the job: the first process looks for it at each report, and all stop at the same step.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from rl import errors
from rl.errors import Interrupted, RatchetError, TrainingFailed, UsageError
from rl.records import Report, TrainingJob
from rl.training_result import TrainingResult

FOLDER = "launch"
JOB, RESULT, FAILURE, STOP = "job.json", "result.json", "failure.json", "stop"
_ROOT = Path(__file__).resolve().parents[2]
END_SECONDS = 60.0
"""For the processes to end by themselves after they were told to stop; a step of training may take long."""
_LAST_LINES = 20


@dataclass(frozen=True, slots=True)
class Launch:
    """How many processes, or what accelerate's configuration file says (DDP, FSDP, DeepSpeed; also for several machines)."""

    processes: int = 1
    accelerate_config: str = ""

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise UsageError(f"--num-processes must be 1 or more, not {self.processes}")
        if self.accelerate_config and not Path(self.accelerate_config).is_file():
            raise UsageError(f"there is no accelerate configuration {self.accelerate_config}")

    @property
    def is_needed(self) -> bool:
        return self.processes > 1 or bool(self.accelerate_config)

    def command(self, *worker: str) -> list[str]:
        if self.accelerate_config:
            start = ["accelerate.commands.launch", "--config_file", self.accelerate_config]
            start += ["--num_processes", str(self.processes)] if self.processes > 1 else []
        else:
            start = ["torch.distributed.run", "--standalone", "--nproc_per_node", str(self.processes)]
        return [sys.executable, "-m", *start, *worker]


def train(method: str, launch: Launch, job: TrainingJob, report: Report) -> TrainingResult:
    """As the method's ``train``. What the first process raises is raised here; TrainingFailed when a process breaks."""
    folder = job.output_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in (RESULT, FAILURE, STOP):
        (folder / name).unlink(missing_ok=True)
    (folder / JOB).write_text(json.dumps(_document(method, job)), encoding="utf-8")
    last: deque[str] = deque(maxlen=_LAST_LINES)
    worker = str(Path(__file__).with_name("worker.py"))
    with _started(launch.command(worker, str(folder)), last) as process:
        stopped = _follow(process, folder, report)
    if stopped:
        raise stopped
    return _result(folder, process.returncode, last)


def _document(method: str, job: TrainingJob) -> dict[str, Any]:
    if job.scorer is not None or job.reward_model is not None:
        raise UsageError(f"{method} rewards answers while it trains, which works in one process only so far")
    return {
        "method": method,
        "job": {
            "train_rows": str(job.train_rows),
            "heldout_rows": str(job.heldout_rows) if job.heldout_rows else None,
            "base_model": job.base_model,
            "output_dir": str(job.output_dir),
            "resume": job.resume,
            "config": asdict(job.config),
        },
    }


@contextmanager
def _started(command: list[str], last: deque[str]) -> Iterator[subprocess.Popen[str]]:
    """Ended when the block is left, whatever happened."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None  # noqa: S101
    reader = threading.Thread(target=_keep, args=(process.stderr, last), daemon=True)
    reader.start()
    try:
        yield process
        process.wait()
    finally:
        _end(process)
        reader.join(1)


def _follow(process: subprocess.Popen[str], folder: Path, report: Report) -> Interrupted | None:
    """Passes the reports on; what interrupted them, after the processes were told to stop."""
    stopped: Interrupted | None = None
    assert process.stdout is not None  # noqa: S101
    for line in process.stdout:
        event = _event(line)
        if event is None or stopped:
            continue
        try:
            report(*event)
        except Interrupted as stop:
            stopped = stop
            (folder / STOP).write_text(str(stop), encoding="utf-8")
    return stopped


def _event(line: str) -> tuple[str, dict[str, Any]] | None:
    """None for what libraries print."""
    with suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict) and isinstance(found.get("event"), str):
            return found["event"], found["values"]
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


def _result(folder: Path, code: int, last: deque[str]) -> TrainingResult:
    if (folder / FAILURE).exists():
        failure = json.loads((folder / FAILURE).read_text(encoding="utf-8"))
        raise _made(getattr(errors, failure["type"], TrainingFailed), failure["text"])
    if not (folder / RESULT).exists():
        said = next((line for line in reversed(last) if "Error" in line), last[-1] if last else "")
        raise TrainingFailed(f"a training process ended with exit code {code}: {said or 'it said nothing'}")
    return TrainingResult.load(folder / RESULT)


def _made(kind: type[RatchetError], text: str) -> RatchetError:
    """Some errors are made of more than a text."""
    try:
        return kind(text)
    except TypeError:
        return TrainingFailed(text)
