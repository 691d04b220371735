"""What all training commands do: make a run or go on with one, execute it, show what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl.base.errors import GateRejected, Interrupted, RunConflict, UsageError
from rl.collect.importers import BY_ITSELF
from rl.collect.importers.newcomers import settle_in
from rl.config import find_method
from rl.config.authority import Owner
from rl.hardware import detect_hardware, in_4bit
from rl.management.agents import ANSWERS, NOTHING, RATINGS, Need, choose_agent
from rl.management.base import RatchetCommand, two_columns
from rl.management.resuming import find_resumable, resume
from rl.management.tables import evaluation_document, evaluation_tables, verdict_line
from rl.management.training_options import TrainOptions, run_options, training_config
from rl.models import Evaluation, TrainingRun
from rl.operations import audit
from rl.runs import run as runs
from rl.runs import supervisor
from rl.runs.dry_run import dry_run


def train_command(
    command: RatchetCommand, method: str, options: TrainOptions, file: Mapping[str, Any] | None = None
) -> None:
    """``file``: what a configuration file settles, where there is one."""
    if options.run is not None:
        with audit.acting_for(audit.Caller(audit.QUEUE)):
            _execute(command, _find_claimed(options.run, options.attempt))
        return
    agent = choose_agent(options.agent, _needs(method, options), command.report)
    if getattr(options, "data_file", ""):
        settle_in(agent, BY_ITSELF, keep=not options.dry_run)
    config = training_config(agent, method, options, file)
    in_4bit(config.quantization, detect_hardware())
    if options.resume is not None:
        stopped = find_resumable(agent, method, options.resume)
        _execute(command, resume(command, stopped, options, config, file))
        return
    chosen = run_options(agent, options)
    if options.dry_run:
        plan = dry_run(agent, config, chosen, method, measures=True, report=command.report)
        command.result(plan.document, *[two_columns(title, rows) for title, rows in plan.tables.items()])
        return
    run = runs.create(agent, method_name=method, config=config, options=chosen, by=Owner.OPERATOR)
    _execute(command, supervisor.claim_stopped(run))


def _needs(method: str, options: TrainOptions) -> Need:
    """A file brings its own ratings, and what learns from rewards needs none."""
    if getattr(options, "data_file", ""):
        return NOTHING
    return RATINGS if find_method(method).rows.measure == "preference" else ANSWERS


def _find_claimed(run_id: int, attempt: int | None) -> TrainingRun:
    run = TrainingRun.objects.select_related("agent", "training_set", "version").filter(pk=run_id).first()
    if run is None:
        raise UsageError(f"there is no run {run_id}")
    if run.state != TrainingRun.State.RUNNING or run.attempt != attempt:
        raise RunConflict(f"run {run_id} is {run.state} at attempt {run.attempt}; attempt {attempt} has nothing to do")
    return run


def _execute(command: RatchetCommand, run: TrainingRun) -> None:
    try:
        evaluation = runs.execute(run, command.report)
    except Interrupted as stop:
        raise Interrupted(f"{stop}; --resume {run.pk} goes on from its last checkpoint") from stop
    show_run(command, run, evaluation)


def show_run(command: RatchetCommand, run: TrainingRun, evaluation: Evaluation) -> None:
    """Raises GateRejected, which is the command's exit code."""
    assert run.version is not None  # noqa: S101  a run that ends well has made one
    artifacts = {artifact.kind: artifact.path for artifact in run.version.artifacts.all()}
    document = {"run": run.pk, "version": run.version.name, "steps": run.step, "artifacts": artifacts}
    lines = [verdict_line(evaluation), f"version: {run.version}"]
    lines += [f"{kind}: {path}" for kind, path in artifacts.items()]
    command.result(
        {**document, "evaluation": evaluation_document(evaluation)}, *evaluation_tables(evaluation), lines=lines
    )
    if evaluation.verdict == Evaluation.Verdict.REJECT:
        raise GateRejected(f"{run.version} is worse than the version in use; it was not exported and is not used")
