"""What all training commands do: make a run or go on with one, execute it, show what came of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.db import transaction

from rl.base.errors import GateRejected, Interrupted, RunConflict, UsageError
from rl.collect.importers import BY_ITSELF
from rl.collect.importers.newcomers import settle_in
from rl.config import TrainingConfig, find_method
from rl.config.authority import Owner
from rl.dataset_builder.training_dataset import AGENT, new_agent_of_files
from rl.hardware import detect_hardware, in_4bit
from rl.lm import base_models
from rl.management.base import ANSWERS, NOTHING, RATINGS, Need, RatchetCommand, choose_agent, two_columns
from rl.management.options import read_options
from rl.management.tables import evaluation_document, evaluation_tables, verdict_line
from rl.management.training_options import TrainOptions, add_training_options, run_options, training_config
from rl.models import Agent, Evaluation, TrainingRun
from rl.operations import audit
from rl.runs import choosing, supervisor
from rl.runs import run as runs
from rl.runs.effort import plan_effort


class TrainCommand(RatchetCommand):
    options: ClassVar[type[TrainOptions]]
    method: ClassVar[str]
    title: ClassVar[str] = ""
    """Above the method's own options."""

    def add_options(self, parser: CommandParser) -> None:
        add_training_options(parser, self.options, self.title)

    def run(self, options: TrainOptions) -> None:
        train_command(self, self.method, options)


def train_command(
    command: RatchetCommand, method: str, options: TrainOptions, file: Mapping[str, Any] | None = None
) -> None:
    """``file``: what a configuration file settles, where there is one."""
    if options.run is not None:
        with audit.acting_for(audit.Caller(audit.QUEUE)):
            _execute(command, _find_claimed(options.run, options.attempt))
        return
    if not _brings_agent(options):
        agent = choose_agent(options.agent, _needs(method, options), command.report)
        if run := _prepare(command, agent, method, options, file):
            _execute(command, run)
        return
    with transaction.atomic():
        agent = new_agent_of_files(options.agent or AGENT)
        command.report("log", {"text": f"agent: {agent}, made for the file"})
        run = _prepare(command, agent, method, options, file)
        transaction.set_rollback(run is None)
    if run:
        _execute(command, run)


def _prepare(
    command: RatchetCommand, agent: Agent, method: str, options: TrainOptions, file: Mapping[str, Any] | None
) -> TrainingRun | None:
    """A claimed run; None where the plan is all that was asked for, and is shown."""
    if getattr(options, "data_file", ""):
        settle_in(agent, BY_ITSELF, keep=not options.dry_run)
    config = training_config(agent, method, options, file)
    in_4bit(config.quantization, detect_hardware())
    if options.resume is not None:
        return resume(command, find_resumable(agent, method, options.resume), options, config, file)
    chosen = run_options(agent, options)
    if options.effort and not options.dry_run:  # the forecast reads the model
        base_models.resolve(chosen.base_model_of(agent), command.report)
    if options.dry_run or options.effort:
        config, chosen, plan = plan_effort(
            agent, config, chosen, method, options.effort, measures=True, report=command.report
        )
        if options.dry_run:
            command.result(plan.document, *[two_columns(title, rows) for title, rows in plan.tables.items()])
            return None
        command.report("log", {"text": plan.effort})
    run = runs.create(agent, method_name=method, config=config, options=chosen, by=Owner.OPERATOR)
    return supervisor.claim_stopped(run)


def _brings_agent(options: TrainOptions) -> bool:
    """Whether a file comes with an agent that is not there yet."""
    if not getattr(options, "data_file", "") or options.resume is not None:
        return False
    known = Agent.objects.filter(name__iexact=options.agent) if options.agent else Agent.objects.all()
    return not known.exists()


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
        raise GateRejected(f"the gate rejected {run.version}, so it is not used: {evaluation.report['reason']}")


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
    configuration file settles, where there is one. Raises UsageError that names the options which the run was not
    started with."""
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
