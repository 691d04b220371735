from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from rich.table import Table

from rl import online_learner
from rl.management.base import RatchetCommand, agent_named
from rl.models import Agent


class Command(RatchetCommand):
    help = "Automatic retraining: what waits, start a run now, or ask once whether one is due."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["status", "run-now", "tick"])
        parser.add_argument("--agent", help="one agent; status shows all without it, run-now needs it")

    def run(self, **options: Any) -> None:
        actions = {"status": self._status, "run-now": self._run_now, "tick": self._tick}
        actions[options["action"]](options["agent"])

    def _status(self, name: str | None) -> None:
        agents = [agent_named(name)] if name else list(Agent.objects.all())
        rows = online_learner.statuses(agents)
        table = Table("agent", "on", "waiting", "needed", "training", "retrain now?", title="Online learning")
        for row in rows:
            cells = (
                row["agent"],
                row["enabled"],
                row["buffer_size"],
                row["min_samples"],
                row["is_training"],
                row["reason"],
            )
            table.add_row(*map(str, cells))
        self.result({"agents": rows}, table)

    def _run_now(self, name: str | None) -> None:
        run = online_learner.OnlineLearner(agent_named(name or "")).trigger_retrain()
        self.result({"run": run.pk}, lines=[f"run {run.pk} is queued; 'manage.py qcluster' starts it"])

    def _tick(self, name: str | None) -> None:
        runs = [run.pk for run in online_learner.tick()]
        self.result({"queued": runs}, lines=[f"queued: {', '.join(map(str, runs)) or 'nothing is due'}"])
