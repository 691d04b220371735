"""Status, run-now, tick."""

from rich.table import Table

from rl import online_learner
from rl.base.errors import UsageError
from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, argument, option
from rl.models import Agent

YES_NO = {True: "yes", False: "no"}


class Options(CommandOptions):
    action: str = argument(choices=["status", "run-now", "tick"])
    agent: str | None = option(help="of status and run-now; status shows all agents without it")


class Command(RatchetCommand):
    help = "Automatic retraining: what waits, start a run now, or ask once whether one is due."

    def run(self, options: Options) -> None:
        actions = {"status": self._status, "run-now": self._run_now, "tick": self._tick}
        actions[options.action](options.agent)

    def _status(self, name: str | None) -> None:
        agents = [Agent.by_name(name)] if name else list(Agent.objects.all())
        rows = online_learner.statuses(agents)
        table = Table("agent", "on", "waiting", "needed", "training", "retrain now?", title="Online learning")
        for row in rows:
            cells = (
                row["agent"],
                YES_NO[row["enabled"]],
                row["buffer_size"],
                row["min_samples"],
                YES_NO[row["is_training"]],
                row["reason"],
            )
            table.add_row(*map(str, cells))
        self.result({"agents": rows}, table)

    def _run_now(self, name: str | None) -> None:
        if not name:
            raise UsageError("--agent is missing: say which agent to retrain")
        run = online_learner.OnlineLearner(Agent.by_name(name)).trigger_retrain()
        self.result({"run": run.pk}, lines=[f"run {run.pk} is queued; 'manage.py qcluster' starts it"])

    def _tick(self, name: str | None) -> None:
        if name:
            raise UsageError("tick asks every agent; leave --agent out, or use run-now")
        runs = [run.pk for run in online_learner.tick()]
        self.result({"queued": runs}, lines=[f"queued: {', '.join(map(str, runs))}" if runs else "nothing is due"])
