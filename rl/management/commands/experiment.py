"""Start, show, end experiments."""

from __future__ import annotations

import getpass
from dataclasses import dataclass

from django.db import transaction
from rich.table import Table

from rl.base.errors import UsageError
from rl.management.base import ActionsCommand
from rl.management.experiment_options import StartOptions, find_experiment, find_variant, parse_arms
from rl.management.options import argument
from rl.models import Agent, Experiment
from rl.serving import judge_server
from rl.serving.experiments import lifecycle
from rl.serving.experiments.looks import look
from rl.serving.experiments.report import answer, document

FIGURES = ("share", "users", "samples", "mean", "difference", "p", "requests", "failures")


@dataclass(frozen=True, slots=True)
class ListOptions:
    agent: str | None = argument("--agent")


@dataclass(frozen=True, slots=True)
class ChosenOptions:
    """Those that choose an experiment, of ``status`` and ``stop``."""

    name: str | None = argument("--name", help="which experiment; the running one, else the newest")
    agent: str = argument("--agent", required=True)

    @property
    def experiment(self) -> Experiment:
        """Raises UsageError."""
        return find_experiment(Agent.by_name(self.agent), self.name)


@dataclass(frozen=True, slots=True)
class PromoteOptions(ChosenOptions):
    arm: str = argument("--arm", required=True, help="a version, or base; v2@4 as in --arms")


class Command(ActionsCommand):
    help = "Let two or more versions answer an agent's users side by side, and see which is better."
    actions = {
        "start": ("make an experiment and start it", StartOptions),
        "status": ("arms, intervals and verdict", ChosenOptions),
        "stop": ("end it without an answer", ChosenOptions),
        "promote": ("put one of its arms in use, and end it", PromoteOptions),
        "list": ("all experiments, newest first", ListOptions),
    }

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

    def _status(self, options: ChosenOptions) -> None:
        self._show(options.experiment)

    def _stop(self, options: ChosenOptions) -> None:
        experiment = options.experiment
        lifecycle.stop(experiment, getpass.getuser())
        self._show(experiment)

    def _promote(self, options: PromoteOptions) -> None:
        experiment = options.experiment
        arms = {arm.name.lower(): arm for arm in experiment.arms.select_related("version")}
        if options.arm.lower() not in arms:
            raise UsageError(f"{experiment.name} has no arm {options.arm!r}; it has: {', '.join(arms)}")
        lifecycle.conclude(experiment, arms[options.arm.lower()], getpass.getuser(), report=self.report)
        self._show(experiment)

    def _list(self, options: ListOptions) -> None:
        rows = Experiment.objects.select_related("agent")
        rows = rows.filter(agent=Agent.by_name(options.agent)) if options.agent else rows
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
