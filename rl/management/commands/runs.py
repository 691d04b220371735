"""List training runs, and cancel one."""

from rich.table import Table

from rl.base.errors import UsageError
from rl.management.base import ActionsCommand
from rl.management.options import CommandOptions, argument, option
from rl.models import Agent, TrainingRun
from rl.runs import supervisor


class ListRunsOptions(CommandOptions):
    agent: str | None = option(help="only this agent's")
    limit: int = option(default=20, help="most runs (20)")


class CancelOptions(CommandOptions):
    number: int = argument(type=int, help="of the run")


class Command(ActionsCommand):
    help = "Training runs, the newest first; cancel one that waits or is at work."
    actions = {"list": "the newest runs", "cancel": "stop a run; --resume of its training command goes on with it"}

    def _list(self, options: ListRunsOptions) -> None:
        if options.limit < 1:
            raise UsageError("--limit must be 1 or more")
        runs = TrainingRun.objects.select_related("agent", "version").order_by("-pk")
        runs = runs.filter(agent=Agent.by_name(options.agent)) if options.agent else runs
        rows = [
            {
                "run": run.pk,
                "agent": run.agent.name,
                "method": run.method,
                "state": run.state,
                "step": f"{run.step} of {run.total_steps}" if run.total_steps else run.stage,
                "version": run.version and run.version.name,
                "error": run.error,
            }
            for run in runs[: options.limit]
        ]
        table = Table("run", "agent", "method", "state", "step", "version", "error")
        for row in rows:
            table.add_row(*("-" if value in (None, "") else str(value) for value in row.values()))
        self.result({"runs": rows}, table)

    def _cancel(self, options: CancelOptions) -> None:
        number = options.number
        run = TrainingRun.objects.select_related("agent").filter(pk=number).first()
        if run is None:
            raise UsageError(f"there is no run {number}; 'manage.py runs list' shows them")
        line = f"run {number} {'is cancelled' if supervisor.stop(run) else 'stops after its current step'}"
        self.result({"run": number, "state": run.state, "cancel_requested": True}, lines=[line])
