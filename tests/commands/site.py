"""An installation of its own for tests that start real processes: a folder with a database, demo data and the tiny model."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.commands.forked import Forked
from tests.guard_limits import NOISE_ALLOWED
from tests.ports import reserve_port
from tests.waiting import until

MANAGE = Path(__file__).resolve().parents[2] / "manage.py"
QUICK = {
    "epochs": 2.0,
    "batch_size": 8,
    "gradient_accumulation": 1,
    "learning_rate": 1e-3,
    "save_steps": 4,
    "lora_r": 4,
}
TRAIN = ("train_dpo", "--agent", "support-chat", "--val-split", "0.25")
ANSWER_TOKENS = 16
"""Each evaluation lets the models answer."""


@dataclass(frozen=True)
class Site:
    data: Path

    def environment(self, **more: str) -> dict[str, str]:
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "VIRTUAL_ENV") if name in os.environ}
        return {
            **keep,
            "ENV_FILE": os.devnull,
            "DJANGO_SETTINGS_MODULE": "backend.settings",
            "SECRET_KEY": "only-for-tests-" + "y" * 40,
            "DEBUG": "1",
            "DATA_DIR": str(self.data),
            "DEFAULT_BASE_MODEL": "tiny",
            "DATABASE_URL": f"sqlite:///{self.data / 'db.sqlite3'}",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "NO_COLOR": "1",
            **more,
        }

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(MANAGE), *arguments],
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def fork(self, *arguments: str, **environment: str) -> Forked:
        """Like ``start``, sooner."""
        return Forked(MANAGE, arguments, self.environment(**environment))

    def run(self, *arguments: str, expect: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs ``manage.py`` and checks its exit code."""
        process = self.fork(*arguments, **environment)
        output, errors = process.communicate(timeout=1800)
        assert process.returncode == expect, f"exit {process.returncode}\n{output}\n{errors}"
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def json(self, *arguments: str, expect: int = 0, **environment: str) -> Any:
        return json.loads(self.run(*arguments, "--json", expect=expect, **environment).stdout)

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.data / "db.sqlite3", timeout=60)
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()

    def change(self, sql: str, *parameters: Any) -> None:
        connection = sqlite3.connect(self.data / "db.sqlite3", timeout=60)
        try:
            with connection:
                connection.execute(sql, parameters)
        finally:
            connection.close()

    def shorten(self, steps: int) -> None:
        """Trainings of the demo's agent, for whom any version will do."""
        self.change("UPDATE rl_agent SET training_overrides = json_set(training_overrides, '$.max_steps', ?)", steps)

    def copy(self, target: Path) -> Site:
        shutil.copytree(self.data, target)
        return Site(target)

    def losses(self, run: int = 1) -> list[float]:
        points = self.query('SELECT step, "values" FROM rl_metricpoint WHERE run_id = ? ORDER BY step', run)
        return [json.loads(values)["loss"] for _, values in points]

    def wait_for(self, sql: str, seconds: float = 120) -> tuple[Any, ...]:
        """The first row that the query gives, as soon as it gives one."""
        return until(lambda: self.query(sql), seconds, every=0.2)[0]


def kill_session(process: subprocess.Popen[str] | Forked) -> None:
    """SIGKILL to all that the process started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def kill_servers(site: Site) -> None:
    """SIGKILL to its llama.cpp servers, which outlive what started them."""
    for server in psutil.process_iter(["cmdline"]):
        if str(site.data / "servers") in (server.info["cmdline"] or []):
            server.kill()


@contextmanager
def serving(site: Site, **environment: str) -> Iterator[str]:
    """The address of the site with its gateway, as ``serve`` starts both."""
    port = reserve_port()
    process = site.start("serve", "--port", str(port), **environment)
    reading = threading.Thread(target=process.communicate, daemon=True)  # else a full pipe would hold it up
    reading.start()
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _answers(f"{url}/healthz"), 60)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        reading.join()


def _answers(url: str) -> bool:
    try:
        return bool(urllib.request.urlopen(url, timeout=2).status == 200)
    except OSError:
        return False


def prepare(data: Path, overrides: dict[str, Any]) -> Site:
    site = Site(data)
    data.mkdir(parents=True)
    program = (
        "from rl.demo.load import load_demo; from rl.lm.base_models import resolve; from rl.base.records import silent;"
        f"agent = load_demo('tiny'); agent.training_overrides = {{**agent.training_overrides, **{overrides!r}}};"
        f"agent.response_length = {ANSWER_TOKENS}; agent.guard_limits = {NOISE_ALLOWED!r}; agent.save();"
        "resolve('tiny', silent)"
    )
    site.run("migrate", "--verbosity", "0")
    site.run("shell", "--no-imports", "-c", program)
    return site
