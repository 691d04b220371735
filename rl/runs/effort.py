"""One dial, ``--effort``: how long a run may take. It sets what nobody has set, from the forecast of what that costs here.

``minutes`` is the preset ``auto``. ``now`` takes from it what costs least until the forecast is a minute: most of the
prompts that it is tested on, then a third of the passes, then the other prompts. Layers it leaves alone: half of them cost
SmolLM2 a third of its right answers. ``hours`` adds what makes the verdict, or the rate, surer."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from rl.base.errors import UsageError
from rl.base.records import Report, silent
from rl.config import AUTO, TrainingConfig
from rl.dataset_builder import DataOptions
from rl.dataset_builder.frozen.folding import most_tested
from rl.models import Agent
from rl.runs import choosing
from rl.runs.choosing import ChosenConfig, RunOptions
from rl.runs.dry_run import Plan, dry_run
from rl.runs.sweep import trial_steps

EFFORTS: Final = ("now", "minutes", "hours")
SECONDS_NOW: Final = 60.0
FEW_TESTED, MANY_TESTED = 0.05, 0.5
"""Shares of the prompts that are held out, or that a cross-fitted run is tested on: up to half of them need one further
training."""
_PASSES = 2 / 3
SWEPT: Final = ("mpo", "dpo", "kto")
"""Methods whose rates are tried. Imitation alone goes further from the base model than a sweep allows, at any rate."""


class EffortPlan(NamedTuple):
    config: TrainingConfig
    options: RunOptions
    plan: Plan


@dataclass(frozen=True, slots=True)
class _Attempt:
    config: TrainingConfig
    options: RunOptions
    changed: tuple[str, ...] = ()

    def __add__(self, words: str) -> "_Attempt":
        return replace(self, changed=(*self.changed, words))

    def with_tested(self, share: float, words: str) -> "_Attempt":
        data = replace(self.options.data, val_split=share)
        return replace(self, options=replace(self.options, data=data)) + words

    def with_values(self, words: str, **values: float) -> "_Attempt":
        return replace(self, config=self.config.with_overrides(values)) + words


def choose_preset(
    agent: Agent, method: str, *, base_model: str = "", preset: str = "", effort: str = ""
) -> ChosenConfig:
    """What a run starts from. Raises UsageError for an effort beside a preset, or one that there is not."""
    if not effort:
        return choosing.choose(agent, method, base_model=base_model, preset=preset)
    if effort not in EFFORTS:
        raise UsageError(f"there is no effort {effort}; {', '.join(EFFORTS)} are there")
    if preset:
        raise UsageError(f"the effort {effort} chooses what the preset {preset} would set: name one of the two")
    return choosing.choose(agent, method, base_model=base_model, preset=AUTO)


def plan_effort(
    agent: Agent,
    config: TrainingConfig,
    options: RunOptions,
    method: str,
    effort: str,
    *,
    measures: bool = False,
    report: Report = silent,
) -> EffortPlan:
    """``config``: as ``choose_preset`` gave it, with what was said beside the effort, which stays. Raises as ``dry_run``."""
    plan_of = partial(dry_run, agent, method=method, measures=measures, report=report)
    first = _Attempt(config, options)
    plan = plan_of(config, options)
    if effort == "now":
        for tried in _shorten(first, plan):
            if _is_short(plan):
                break
            first, plan = tried, plan_of(tried.config, tried.options)
    elif effort == "hours":
        first = _lengthen(first, plan, method)
        plan = plan_of(first.config, first.options) if first.changed else plan
    line = _line(effort, first, plan) if effort else ""
    return EffortPlan(first.config, first.options, replace(plan, effort=line))


def _is_short(plan: Plan) -> bool:
    return plan.estimate is not None and plan.estimate.seconds <= SECONDS_NOW


def _shorten(attempt: _Attempt, plan: Plan) -> Iterator[_Attempt]:
    """Each on top of the one before. ``plan``: without any of them."""
    untested = attempt
    if is_usual := _leaves_tested(attempt):
        attempt = attempt.with_tested(FEW_TESTED, "tested on few prompts")
        yield attempt
    passes = max(1.0, round(plan.config.epochs * _PASSES))
    if "epochs" in attempt.config.automatic and passes < plan.config.epochs:
        attempt = attempt.with_values(f"{passes:g} passes and not {plan.config.epochs:g}", epochs=passes)
        yield attempt
    if is_usual and plan.estimate:
        untested = untested.with_tested(0.0, "tested on none, so that the gate cannot tell whether it is better")
        yield replace(untested, config=attempt.config, changed=(*attempt.changed[1:], *untested.changed))


def _lengthen(attempt: _Attempt, plan: Plan, method: str) -> _Attempt:
    prompts = most_tested(plan.survey.train_prompts, MANY_TESTED, "closed")
    if plan.tested and _leaves_tested(attempt) and prompts > plan.tested:
        return attempt.with_tested(MANY_TESTED, f"tested on {prompts} prompts and not {plan.tested}")
    if not plan.tested and method in SWEPT and "learning_rate" in attempt.config.automatic:
        with suppress(UsageError):  # too few rows, or too few steps
            trial_steps(plan.config, plan.survey.train_rows)
            return replace(attempt, options=replace(attempt.options, sweep=True)) + "three rates are tried"
    return attempt


def _leaves_tested(attempt: _Attempt) -> bool:
    """Whether nobody said how many prompts are held out."""
    return attempt.options.data.val_split == DataOptions().val_split


def _line(effort: str, attempt: _Attempt, plan: Plan) -> str:
    """Such as "now: tested on few prompts, 4 passes and not 6; about 55 seconds here"."""
    usual = "as the preset auto chooses" + (", for want of anything better" if effort == "hours" else "")
    what = ", ".join(attempt.changed) or usual
    if plan.estimate is None:
        return f"{effort}: {what}; how long that takes is not known, since the model is not here yet"
    seconds = plan.estimate.seconds
    time = f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.1f} minutes"
    longer = "" if effort != "now" or _is_short(plan) else ", and no more is left out"
    return f"{effort}: {what}; about {time} here{longer}"
