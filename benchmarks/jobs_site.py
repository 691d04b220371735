"""A site for one measurement: an agent, the rows of a job, a training from the command line, what it led to."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
MANAGE: Final = [sys.executable, str(ROOT / "manage.py")]
AGENT: Final = "job"
_PREPARE: Final = """
from rl.models import Agent
Agent.objects.create(name="AGENT", base_model="smollm2", online_learning=False)
"""
_REPORT: Final = """
import json
from rl.models import Agent
from rl.versions.versions import weights_directory
run = Agent.by_name("AGENT").runs.order_by("-pk").first()
version = run.version
evaluation = version.evaluations.order_by("created_at").first() if version else None
report = evaluation.report if evaluation else {}
print(json.dumps({
    "method": run.method, "state": run.state, "error": run.error, "steps": run.config["epochs"],
    "rate": run.config["learning_rate"],
    "weights": str(weights_directory(version)) if version else "", "folder": str(run.directory),
    "verdict": evaluation.verdict if evaluation else "", "reason": report.get("reason", ""),
    "right": report.get("right"), "models": report.get("models"), "asked": report.get("prompts"),
    "folds": run.training_set.stats.get("folds", 0),
    "kind": run.training_set.stats.get("answer_kind", {}).get("kind", ""),
}))
"""


def set_up(folder: Path) -> None:
    """Django's settings, for the models that are asked in this process."""
    own = Site(folder / "asking")
    own.folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(own.environment | {"DJANGO_SETTINGS_MODULE": "backend.settings"})
    sys.path.insert(0, str(ROOT))
    import django

    django.setup()


@dataclass(frozen=True, slots=True)
class Site:
    folder: Path
    agent: str = AGENT

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "ENV_FILE": os.devnull,
            "SECRET_KEY": "only-for-this-benchmark-" + "x" * 40,
            "DEBUG": "1",
            "DATA_DIR": str(self.folder),
            "DATABASE_URL": f"sqlite:///{self.folder / 'db.sqlite3'}",
        }
        return {**os.environ, **own}

    def manage(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Raises SystemExit with what the command said where it fails."""
        command = [*MANAGE, *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise SystemExit(f"{' '.join(arguments)}: {done.stderr[-2000:]}")
        return done

    def open(self) -> None:
        """Empty, with the agent."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.manage("migrate", "--verbosity", "0")
        self.manage("shell", "--no-imports", "-c", _PREPARE.replace("AGENT", self.agent))

    def add(self, rows: Sequence[dict[str, Any]], form: str = "trl") -> None:
        file = self.folder / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        self.manage("import_traces", "--format", form, "--agent", self.agent, str(file))

    def train(self, *options: str, method: str = "mpo") -> dict[str, Any]:
        """By the command, with nothing set but the options; seconds from command to verdict."""
        before, started = os.times(), time.monotonic()
        done = self.manage(f"train_{method}", "--agent", self.agent, *options, check=False)
        after, seconds = os.times(), time.monotonic() - started
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        said = (done.stdout + done.stderr)[-3000:]
        shown = self.manage("shell", "--no-imports", "-c", _REPORT.replace("AGENT", self.agent), check=False)
        if shown.returncode:
            raise SystemExit(f"train_{method} made no run: {said}")
        report = json.loads(shown.stdout.splitlines()[-1])
        return {
            **report,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu, 1),
            "rc": done.returncode,
            "said": said,
        }
