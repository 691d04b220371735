"""Arms, ramp and the other options of an experiment, as one writes them on a command line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.management.options import argument
from rl.models import BASE, Agent, Experiment
from rl.serving.best_of import check_best_of
from rl.serving.experiments.lifecycle import Side, Variant, find_running


@dataclass(frozen=True, slots=True)
class StartOptions:
    name: str = argument("--name", required=True, help="for people; each experiment of an agent has its own")
    arms: str = argument(
        "--arms",
        required=True,
        help="versions, or base, and their weights: v2=50,base=50; v2@4 is the best of four answers",
    )
    control: str = argument("--control", required=True, help="the arm that the others are compared with")
    metric: str | None = argument("--metric", help="rating, thumbs_up, win_rate, duel, error_rate or outcome:NAME")
    minimum_effect: float | None = argument(
        "--minimum-effect", type=float, help="the smallest difference that matters, in units of the metric"
    )
    confidence: float | None = argument("--confidence", type=float, help="0.5 to 0.999")
    min_samples: int | None = argument(
        "--min-samples", type=int, help="rated users an arm before anything is concluded"
    )
    max_samples: int | None = argument(
        "--max-samples", type=int, help="rated users an arm at which it ends; else twice the predicted"
    )
    guard_metric: str | None = argument("--guard-metric", help="an arm that is worse by this one is stopped at once")
    guard_margin: float | None = argument("--guard-margin", type=float, help="how much worse is still bearable")
    ramp: str | None = argument("--ramp", help="hours and the share of the challengers from then on: 0:0.1,24:0.5")
    no_automatic: bool = argument(
        "--no-automatic", action="store_true", help="say what the answer is, and leave the rest to a person"
    )
    agent: str = argument("--agent", required=True)

    def settings(self) -> dict[str, Any]:
        """Fields of the experiment, but for those that no option sets: the model knows their defaults."""
        set_fields = {name: value for name in Experiment.QUESTION if (value := getattr(self, name)) is not None}
        return {**set_fields, "ramp": parse_ramp(self.ramp or ""), "automatic": not self.no_automatic}


def parse_arms(agent: Agent, text: str) -> list[Side]:
    """Raises UsageError."""
    return [(find_variant(agent, name), _number(weight or "1", text)) for name, weight in _pairs(text, "=")]


def parse_ramp(text: str) -> list[dict[str, float]]:
    """Raises UsageError."""
    steps = _pairs(text, ":") if text else []
    return [{"hours": _number(hours, text), "share": _number(share, text)} for hours, share in steps]


def find_variant(agent: Agent, text: str) -> Variant:
    """Reads ``v2``, ``base`` or, for the best of four answers, ``v2@4``. Raises UsageError that lists the versions there
    are."""
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
