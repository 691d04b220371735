"""Start, show, end experiments."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from rich.table import Table

from rl.base.errors import UsageError
from rl.management.base import RatchetCommand, add_json_option
from rl.management.experiment_options import (
    StartOptions,
    add_start_options,
    find_experiment,
    find_variant,
    parse_arms,
)
from rl.management.options import Action, read_options
from rl.models import Agent, Experiment
from rl.serving import judge_server
from rl.serving.experiments import lifecycle
from rl.serving.experiments.looks import look
from rl.serving.experiments.report import answer, document

FIGURES = ("share", "users", "samples", "mean", "difference", "p", "requests", "failures")


@dataclass(frozen=True, slots=True)
class ListOptions:
    agent: str | None


@dataclass(frozen=True, slots=True)
class ChosenOptions:
    """Those that choose an experiment, of ``status`` and ``stop``."""

    agent: str
    name: str | None

    @property
    def experiment(self) -> Experiment:
        """Raises UsageError."""
        return find_experiment(Agent.by_name(self.agent), self.name)


@dataclass(frozen=True, slots=True)
class PromoteOptions(ChosenOptions):
    arm: str


class Command(RatchetCommand):
    help = "Let two or more versions answer an agent's users side by side, and see which is better."

    def add_options(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        start = actions.add_parser("start", help="make an experiment and start it")
        status = actions.add_parser("status", help="arms, intervals and verdict")
        stop = actions.add_parser("stop", help="end it without an answer")
        promote = actions.add_parser("promote", help="put one of its arms in use, and end it")
        listing = actions.add_parser("list", help="all experiments, newest first")
        add_start_options(start)
        promote.add_argument("--arm", required=True, help="a version, or base; v2@4 as in --arms")
        for subcommand in (status, stop, promote):
            subcommand.add_argument("--name", help="which experiment; the running one, else the newest")
        for subcommand in (start, status, stop, promote, listing):
            subcommand.add_argument("--agent", required=subcommand is not listing)
        add_json_option(start, status, stop, promote, listing)

    def run(self, **arguments: Any) -> None:
        match read_options(Action, arguments).action:
            case "start":
                self._start(read_options(StartOptions, arguments))
            case "status":
                self._show(read_options(ChosenOptions, arguments).experiment)
            case "stop":
                self._stop(read_options(ChosenOptions, arguments).experiment)
            case "promote":
                self._promote(read_options(PromoteOptions, arguments))
            case "list":
                self._list(read_options(ListOptions, arguments).agent)

    def _start(self, options: StartOptions) -> None:
        agent = Agent.by_name(options.agent)
        arms, control = parse_arms(agent, options.arms), find_variant(agent, options.control)
        with transaction.atomic():  # no draft is left of what cannot start
            experiment = lifecycle.create(agent, options.name, arms, control, **options.settings())
            lifecycle.start(experiment)
        missing = [f"nothing serves {name}: its users get no answer" for name in lifecycle.find_unserved(experiment)]
        if any((arm.best_of or 1) > 1 for arm in experiment.arms.all()):
            judge_server.start(agent, report=self.report)
        unjudged = lifecycle.find_unjudged(experiment)
        self._show(experiment, *missing, *([f"the first answer is given: {unjudged}"] if unjudged else []))

    def _stop(self, experiment: Experiment) -> None:
        lifecycle.stop(experiment, getpass.getuser())
        self._show(experiment)

    def _promote(self, options: PromoteOptions) -> None:
        experiment = options.experiment
        arms = {arm.name.lower(): arm for arm in experiment.arms.select_related("version")}
        if options.arm.lower() not in arms:
            raise UsageError(f"{experiment.name} has no arm {options.arm!r}; it has: {', '.join(arms)}")
        lifecycle.conclude(experiment, arms[options.arm.lower()], getpass.getuser(), report=self.report)
        self._show(experiment)

    def _list(self, agent: str | None) -> None:
        rows = Experiment.objects.select_related("agent")
        rows = rows.filter(agent=Agent.by_name(agent)) if agent else rows
        table = Table("experiment", "agent", "state", "answer")
        for row in rows:
            table.add_row(row.name, row.agent.name, row.state, answer(row))
        names = ("name", "agent", "state", "verdict", "reason", "started_at", "stopped_at")
        self.result({"experiments": [{name: getattr(row, name) for name in names} for row in rows]}, table)

    def _show(self, experiment: Experiment, *warnings: str) -> None:
        report = document(look(experiment))
        shown = FIGURES if not experiment.guard_metric else (*FIGURES[:6], "guard", *FIGURES[6:])
        table = Table("", *(arm["version"] for arm in report["arms"]), title=report["question"], title_justify="left")
        for name in shown:
            table.add_row(name, *(arm["texts"][name].replace("\n", " ") for arm in report["arms"]))
        verdict = f"{experiment.name} ({experiment.get_state_display()}): {report['answer']}."
        self.result({**report, "warnings": list(warnings)}, table, lines=(verdict, report["reason"], *warnings))
