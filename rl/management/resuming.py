"""``--resume`` goes on with the settings that a run was started with: what a person asks for besides must agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.core.management.base import CommandParser

from rl.base.errors import UsageError
from rl.config import TrainingConfig, find_method
from rl.management.base import RatchetCommand
from rl.management.options import read_options
from rl.management.training_options import TrainOptions
from rl.models import Agent, TrainingRun
from rl.runs import choosing, supervisor

_OWN = ("agent", "method", "resume", "config")


def find_resumable(agent: Agent, method: str, run_id: int = 0) -> TrainingRun:
    """The agent's last failed, cancelled or abandoned run of the method (or the named one). Raises UsageError when there
    is none."""
    candidates = agent.runs.select_related("training_set", "version").exclude(state=TrainingRun.State.SUCCEEDED)
    run = candidates.filter(pk=run_id).first() if run_id else candidates.filter(method=method).first()
    if run is None:
        raise UsageError(f"{agent.name} has no stopped run{f' {run_id}' if run_id else ''} to resume")
    if run.method != method:
        command = find_method(run.method).command
        raise UsageError(f"run {run.pk} trains with {run.method}: 'manage.py {command} --resume' goes on with it")
    return run


def resume(
    command: RatchetCommand,
    run: TrainingRun,
    options: TrainOptions,
    config: TrainingConfig,
    file: Mapping[str, Any] | None = None,
) -> TrainingRun:
    """Claims the run for the caller. ``config``: what ``--config`` and the other options come to. ``file``: what a
    configuration file settles, where there is one.

    Raises UsageError that names the options which the run was not started with.
    """
    stored = {**run.config, **run.options, **run.options.get("data", {})}
    changed = _changed_options(command, options)
    other = [name for name, value in changed.items() if stored.get(name) != value]
    if file is not None:
        other = ["config" if name in file else name for name in other]
    if (options.config or file is not None) and not _agree(config, run):
        other.append("config")
    if other:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in dict.fromkeys(other))
        raise UsageError(f"--resume goes on with the settings that run {run.pk} was started with; leave out {named}")
    choosing.vouch(run, {*changed, *(() if file is None else {*run.config, *file})})
    choosing.require_origins(run)
    return supervisor.claim_stopped(run)


def _agree(asked: TrainingConfig, run: TrainingRun) -> bool:
    """Whether the run has these settings. What is left to choose may have become anything."""
    started = type(asked)(**run.config)
    chosen = {name: getattr(started, name) for name in (*asked.automatic, "automatic")}
    return replace(asked, **chosen) == started


def _changed_options(command: RatchetCommand, options: TrainOptions) -> dict[str, Any]:
    """The command's own options that are not left at their defaults."""
    parser = CommandParser(add_help=False, conflict_handler="resolve")
    command.add_options(parser)
    defaults = vars(read_options(type(options), vars(parser.parse_args([]))))
    return {name: value for name, value in vars(options).items() if name not in _OWN and value != defaults[name]}
