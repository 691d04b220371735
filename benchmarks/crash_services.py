"""What a service manager does: starts what is to run, and starts it again when it died; and how long the site was away."""

import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from crash_site import MANAGE, ROOT, Site

RESTART_SECONDS = 1.0
"""Between a death and the next start, as systemd's RestartSec."""
PROBE_SECONDS = 0.2
STOP_SECONDS = 20


@dataclass
class Service:
    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    died: float = 0.0
    starts: int = 0

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                start_new_session=True,
            )
        self.starts += 1

    def look(self) -> None:
        """Starts it again once it has been dead for a second."""
        if self.process is None or self.process.poll() is None:
            return
        self.died = self.died or time.monotonic()
        if time.monotonic() - self.died >= RESTART_SECONDS:
            self.died = 0.0
            self.start()

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass
class Services:
    """Started in their order, stopped in the other."""

    rows: list[Service]
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __getitem__(self, name: str) -> Service:
        return next(row for row in self.rows if row.name == name)

    def watch(self) -> None:
        for row in self.rows:
            if row.process is None:
                row.start()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopping.wait(0.1):
            for row in self.rows:
                row.look()

    def stop(self, but: str = "") -> None:
        self._stopping.set()
        if self._thread:
            self._thread.join()
        for row in reversed(self.rows):
            if row.name != but:
                row.stop()


def services_of(site: Site, logs: Path, postgres: Service | None) -> Services:
    commands = {
        "models": [sys.executable, str(ROOT / "benchmarks/gateway.py"), "--upstream", str(site.model_port)],
        "web": [*MANAGE, "serve", "--workers", "2", "--port", str(site.port)],
        "queue": [*MANAGE, "qcluster"],
    }
    rows = [Service(name, command, site.environment, logs / f"{name}.log") for name, command in commands.items()]
    return Services([postgres, *rows] if postgres else rows)


def processes_of(site: Site) -> list[psutil.Process]:
    """All that run with this DATA_DIR, wherever their parents are."""
    processes = []
    for process in psutil.process_iter():
        try:
            command, where = process.cmdline(), process.environ().get("DATA_DIR")
        except psutil.Error:
            continue
        if where == str(site.data) or str(site.data / "servers") in command:
            processes.append(process)
    return processes


@dataclass
class Sampler:
    """Looks at something in a thread of its own, again and again."""

    _stopping: threading.Event = field(default_factory=threading.Event, kw_only=True)
    _thread: threading.Thread | None = field(default=None, kw_only=True)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread:
            self._thread.join()

    def _run(self) -> None:
        raise TypeError(f"{type(self).__name__} does not say what it looks at")


@dataclass
class Probe(Sampler):
    """Asks /readyz all the time."""

    url: str
    seconds: float = 0.0
    """That the site did not answer or was not ready."""
    longest: float = 0.0

    def _run(self) -> None:
        away, before = 0.0, time.monotonic()
        while not self._stopping.wait(PROBE_SECONDS):
            ready, now = is_ready(self.url), time.monotonic()
            if not ready:
                self.seconds += now - before
            away = 0.0 if ready else away + now - before
            self.longest, before = max(self.longest, away), now


def is_ready(url: str) -> bool:
    try:
        return bool(urllib.request.urlopen(f"{url}/readyz", timeout=2).status == 200)
    except (OSError, ValueError):
        return False


def until(is_true: Callable[[], object], seconds: float, every: float = 0.2) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
