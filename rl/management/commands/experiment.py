"""Start, show, end experiments."""

import getpass
import math
from typing import Any

from django.db import transaction
from rich.table import Table

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.management.base import ActionsCommand
from rl.management.options import CommandOptions, option
from rl.models import BASE, Agent, Experiment
from rl.serving import judge_server
from rl.serving.experiments import lifecycle
from rl.serving.experiments.lifecycle import Side, Variant, find_running
from rl.serving.experiments.looks import look
from rl.serving.experiments.report import answer, document
from rl.serving.judge_server import check_best_of

FIGURES = ("share", "users", "samples", "mean", "difference", "p", "requests", "failures", "effort")


class StartOptions(CommandOptions):
    name: str = option(required=True, help="for people; each experiment of an agent has its own")
    arms: str = option(
        required=True, help="versions, or base, and their weights: v2=50,base=50; v2@4 is the best of four answers"
    )
    control: str = option(required=True, help="the arm that the others are compared with")
    metric: str | None = option(help="rating, thumbs_up, win_rate, duel, error_rate or outcome:NAME")
    minimum_effect: float | None = option(help="the smallest difference that matters, in units of the metric")
    confidence: float | None = option(help="0.5 to 0.999")
    min_samples: int | None = option(help="rated users an arm before anything is concluded")
    max_samples: int | None = option(help="rated users an arm at which it ends; else twice the predicted")
    guard_metric: str | None = option(help="an arm that is worse by this one is stopped at once")
    guard_margin: float | None = option(help="how much worse is still bearable")
    ramp: str | None = option(help="hours and the share of the challengers from then on: 0:0.1,24:0.5")
    no_automatic: bool = option(action="store_true", help="say what the answer is, and leave the rest to a person")
    agent: str = option(required=True)

    def settings(self) -> dict[str, Any]:
        """Fields of the experiment, but for those that no option sets: the model knows their defaults."""
        set_fields = {name: value for name in Experiment.QUESTION if (value := getattr(self, name)) is not None}
        ramp = self.ramp or ""
        steps = [{"hours": _number(hours, ramp), "share": _number(share, ramp)} for hours, share in _pairs(ramp, ":")]
        return {**set_fields, "ramp": steps, "automatic": not self.no_automatic}


def find_variant(agent: Agent, text: str) -> Variant:
    """Reads ``v2``, ``base`` or, for the best of four answers, ``v2@4``. Raises UsageError that lists the versions."""
    name, mark, count = text.partition("@")
    if mark and not count.isdecimal():
        raise UsageError(f"{text!r} is not a version with a number of answers, such as v2@4")
    best_of = check_best_of(int(count)) if mark else None
    if name.lower() == BASE:
        return Variant(None, best_of)
    if version := agent.versions.filter(name__iexact=name).first():
        return Variant(version, best_of)
    known = [*agent.versions.values_list("name", flat=True)[:20], BASE]
    raise UsageError(unknown_name(f"version of {agent.name}", name, known))


def find_experiment(agent: Agent, name: str | None) -> Experiment:
    """By its name; without one the running one, else the newest. Raises UsageError when there is none."""
    experiment = (
        agent.experiments.filter(name=name).first() if name else find_running(agent) or agent.experiments.first()
    )
    if experiment:
        return experiment
    known = ", ".join(agent.experiments.values_list("name", flat=True)[:20])
    lack = f"no experiment {name!r}" if name else "no experiment"
    raise UsageError(
        f"{agent.name} has {lack}; " + (f"there are: {known}" if known else "'experiment start' makes one")
    )


def _pairs(text: str, mark: str) -> list[tuple[str, str]]:
    parts = [part.strip().partition(mark) for part in text.split(",") if part.strip()]
    return [(name.strip(), value.strip()) for name, _, value in parts]


def _number(text: str, whole: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise UsageError(f"{text!r} in {whole!r} is not a number") from error
    if not math.isfinite(number):
        raise UsageError(f"{text!r} in {whole!r} is not finite")
    return number


class ListExperimentsOptions(CommandOptions):
    agent: str | None = option()


class ChosenOptions(CommandOptions):
    """Those that choose an experiment, of ``status`` and ``stop``."""

    name: str | None = option(help="which experiment; the running one, else the newest")
    agent: str = option(required=True)

    @property
    def experiment(self) -> Experiment:
        """Raises UsageError."""
        return find_experiment(Agent.by_name(self.agent), self.name)


class PromoteOptions(ChosenOptions):
    arm: str = option(required=True, help="a version, or base; v2@4 as in --arms")


class Command(ActionsCommand):
    help = "Let two or more versions answer an agent's users side by side, and see which is better."
    actions = {
        "start": "make an experiment and start it",
        "status": "arms, intervals and verdict",
        "stop": "end it without an answer",
        "promote": "put one of its arms in use, and end it",
        "list": "all experiments, newest first",
    }

    def _start(self, options: StartOptions) -> None:
        agent = Agent.by_name(options.agent)
        weights = _pairs(options.arms, "=")
        arms: list[Side] = [(find_variant(agent, v), _number(weight or "1", options.arms)) for v, weight in weights]
        control = find_variant(agent, options.control)
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

    def _list(self, options: ListExperimentsOptions) -> None:
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
