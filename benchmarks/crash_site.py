"""An installation in a folder of its own for the crash test: data, settings, and a file system that can be full."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MANAGE = [sys.executable, str(ROOT / "manage.py")]
SIZE = "2g"
TRAINED, STREAMED = "support-chat", "slow-chat"
"""The demo's agent, served by llama.cpp and trained; and one whose answers take half a second to stream."""
DATA = """
import json
from django.core.management import call_command
from rl.demo.load import load_demo
from rl.models import Agent, ApiKey, Deployment, ModelVersion
call_command("migrate", verbosity=0)
agent = load_demo("tiny")
agent.training_overrides |= {{"epochs": 1.0, "save_steps": 2, "lora_r": 4}}
agent.response_length = 16
agent.save()
slow = Agent.objects.create(name="{agent}")
version = ModelVersion.objects.create(agent=slow, name="v1", base_model="tiny", feedback_count=1)
Deployment.objects.create(
    agent=slow, version=version, target="openai", url="{url}", model_name="fake", alias="champion"
)
print(ApiKey.create(name="crash test", kind="secret", scopes=ApiKey.Scope.values)[1])
"""


@dataclass
class Site:
    folder: Path
    database: str
    """URL; empty: SQLite in DATA_DIR."""
    trains: bool
    """Also trains and serves by llama.cpp: minutes instead of seconds."""
    port: int = field(default_factory=lambda: free_port())
    model_port: int = field(default_factory=lambda: free_port())
    key: str = ""
    version: str = ""
    """What llama.cpp serves."""

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "VIRTUAL_ENV") if name in os.environ}
        return {
            **keep,
            "ENV_FILE": os.devnull,
            "SECRET_KEY": "only-for-the-crash-test-" + "x" * 40,
            "DEBUG": "0",
            "HTTPS": "0",
            "ALLOWED_HOSTS": "127.0.0.1",
            "DATA_DIR": str(self.data),
            "DATABASE_URL": self.database,
            "API_REQUESTS_PER_MINUTE": "1000000",
            "GATEWAY_TIMEOUT": "20",
            "RUN_MAX_ATTEMPTS": "20",
            "PAUSE_TRAINING_SECONDS": "0",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "NO_COLOR": "1",
            "MIN_FREE_BYTES": "1048576",
        }

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(self.command(*arguments), env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"manage.py {arguments[0]} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def prepare(self) -> None:
        program = DATA.format(url=f"http://127.0.0.1:{self.model_port}", agent=STREAMED)
        self.key = self.manage("shell", "--no-imports", "-c", program).split()[-1]
        if self.trains:
            self.manage("train_dpo", "--agent", TRAINED, "--max-steps", "2")
            self.version = self.ask("ModelVersion.objects.get(agent__name='support-chat').name")
            served = ("--version", self.version, "--target", "llama_cpp", "--promote")
            self.manage("deploy_model", "--agent", TRAINED, *served)

    def ask(self, expression: str) -> str:
        """Its value, over the site's models."""
        return self.manage("shell", "--no-imports", "-c", f"from rl.models import *; print({expression})").strip()

    def active_runs(self) -> int:
        return int(self.ask("TrainingRun.objects.filter(state__in=TrainingRun.ACTIVE).count()"))

    def command(self, *arguments: str) -> list[str]:
        return [*MANAGE, *arguments]

    def check(self, ledger: Path) -> dict[str, Any]:
        """What crash_checks.py finds, in a process of its own with the site's settings."""
        command = [sys.executable, str(ROOT / "benchmarks/crash_checks.py"), str(ledger)]
        process = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if process.returncode:
            raise SystemExit(f"the checks failed: {process.stderr[-4000:]}")
        report: dict[str, Any] = json.loads(process.stdout)
        return report


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mounts a tmpfs there; False where this process may not: then the disk cannot be full."""
    folder.mkdir(parents=True)
    mounted = _mount("-t", "tmpfs", "-o", f"size={SIZE},mode=755", "tmpfs", str(folder))
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


def fill(folder: Path) -> None:
    """Takes all that is free: the file system ends where its content does."""
    state = os.statvfs(folder)
    used = (state.f_blocks - state.f_bfree) * state.f_frsize
    _mount("-o", f"remount,size={used}", str(folder))


def empty(folder: Path) -> None:
    _mount("-o", f"remount,size={SIZE}", str(folder))


def _mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True).returncode == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
