"""List training runs, and cancel one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser
from rich.table import Table

from rl.base.errors import UsageError
from rl.management.base import RatchetCommand, add_json_option
from rl.management.options import Action, read_options
from rl.models import Agent, TrainingRun
from rl.runs import supervisor


@dataclass(frozen=True, slots=True)
class ListOptions:
    agent: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class CancelOptions:
    number: int


class Command(RatchetCommand):
    help = "Training runs, the newest first; cancel one that waits or is at work."

    def add_options(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="the newest runs")
        listing.add_argument("--agent", help="only this agent's")
        listing.add_argument("--limit", type=int, default=20, help="most runs (20)")
        cancel = actions.add_parser("cancel", help="stop a run; --resume of its training command goes on with it")
        cancel.add_argument("number", type=int, help="of the run")
        add_json_option(listing, cancel)

    def run(self, **arguments: Any) -> None:
        match read_options(Action, arguments).action:
            case "list":
                self._list(read_options(ListOptions, arguments))
            case "cancel":
                self._cancel(read_options(CancelOptions, arguments).number)

    def _list(self, options: ListOptions) -> None:
        if options.limit < 1:
            raise UsageError("--limit must be 1 or more")
        runs = TrainingRun.objects.select_related("agent", "version").order_by("-pk")
        runs = runs.filter(agent=Agent.by_name(options.agent)) if options.agent else runs
        rows = [_as_dict(run) for run in runs[: options.limit]]
        table = Table("run", "agent", "method", "state", "step", "version", "error")
        for row in rows:
            table.add_row(*("-" if value in (None, "") else str(value) for value in row.values()))
        self.result({"runs": rows}, table)

    def _cancel(self, number: int) -> None:
        run = TrainingRun.objects.select_related("agent").filter(pk=number).first()
        if run is None:
            raise UsageError(f"there is no run {number}; 'manage.py runs list' shows them")
        line = f"run {number} {'is cancelled' if supervisor.stop(run) else 'stops after its current step'}"
        self.result({"run": number, "state": run.state, "cancel_requested": True}, lines=[line])


def _as_dict(run: TrainingRun) -> dict[str, Any]:
    return {
        "run": run.pk,
        "agent": run.agent.name,
        "method": run.method,
        "state": run.state,
        "step": f"{run.step} of {run.total_steps}" if run.total_steps else run.stage,
        "version": run.version and run.version.name,
        "error": run.error,
    }
