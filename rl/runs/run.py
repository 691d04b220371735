"""One training run from ratings to a measured version. A terminal, the queue and the tests take this same road.

``create`` makes the row, ``execute`` does the work of a claimed one: freeze the data, train, register the version,
evaluate it, pass the gate, export. Every stage looks at what an earlier attempt has finished already, so a run that was
killed anywhere goes on from there.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from rl import dataset_builder
from rl.base import logs
from rl.base.errors import Interrupted, RatchetError, RunConflict, UsageError
from rl.base.files import remove
from rl.base.leaves import leaf
from rl.base.locks import device_lock
from rl.base.records import Report, TrainingResult
from rl.config import AgentConfig, TrainingConfig, find_method
from rl.config.authority import Owner
from rl.config.automatic import imitates
from rl.config.methods import bakes_in
from rl.config.training_job import TrainingJob
from rl.dataset_builder.accepted_answers import choosing_of, folds_of, kind_of, schema_of, tested_of
from rl.dataset_builder.read.prompt_file import PromptFile
from rl.environments.settings import EnvironmentSettings
from rl.evaluation.evaluate import evaluate
from rl.hardware import choose_gpu
from rl.lm import base_models
from rl.models import Agent, Deployment, Evaluation, TrainingRun, TrainingSet
from rl.operations import audit
from rl.runs import choosing
from rl.runs.after_gate import act_on_verdict
from rl.runs.choosing import RunOptions as RunOptions
from rl.runs.choosing import tracker_names
from rl.runs.ladder import Train, train_within_memory
from rl.runs.monitor import Monitor, stopped_by_signals
from rl.runs.processes.follow import train as train_in_processes
from rl.runs.progress import log_file
from rl.runs.settling import keep, settle_run
from rl.runs.stage_log import StageClock, StageLog
from rl.runs.supervisor import conclude
from rl.runs.sweep import swept
from rl.runs.terms import RunTerms, read_terms
from rl.scoring import rollouts
from rl.serving import machine
from rl.serving.deploy import require_target
from rl.serving.machine import memory_for_training
from rl.versions import versions

TRACKERS = "rl.runs.report.trackers"


def create(
    agent: Agent,
    *,
    method_name: str,
    config: TrainingConfig,
    options: RunOptions,
    trigger: TrainingRun.Trigger = TrainingRun.Trigger.MANUAL,
    by: Owner = Owner.TRAINER,
) -> TrainingRun:
    """The base model is the agent's of now, whatever the agent gets before the run is resumed. ``by``: a trainer's run with
    a value that is the operator's, and that no registered name stands for, is refused when it is executed.

    Raises RunConflict when the agent has a run that is queued or running: two would race for the same ratings.
    """
    find_method(method_name)
    options = choosing.with_origins(agent, config, options, by)
    if bakes_in(config) and (options.sweep or options.launch.is_needed):
        raise UsageError("an instruction is baked in by one process at one rate: leave out --num-processes and --sweep")
    rollouts.check_rollouts(agent, method_name, config, options.rewards, options.reward_model, options.grader)
    try:
        with transaction.atomic():
            run = TrainingRun.objects.create(
                agent=agent,
                method=method_name,
                config=config.as_dict(),
                options=options.as_dict(),
                trigger=trigger,
                started_by="" if trigger == TrainingRun.Trigger.QUICKSTART else audit.person()[:200],
            )
            audit.record(audit.Action.RUN_QUEUED, f"run {run.pk}", agent=agent, method=method_name, trigger=trigger)
    except IntegrityError:
        active = agent.runs.filter(state__in=TrainingRun.ACTIVE).first()
        number = active.pk if active else "?"
        raise RunConflict(
            f"{agent.name} has run {number} in progress; wait for it, or cancel it: manage.py runs cancel {number}"
        ) from None
    remove(run.directory)  # of another database's run with this number: its checkpoints are not ours
    return run


def execute(run: TrainingRun, report: Report) -> Evaluation:
    """Does the work of a run that the caller has claimed, in this process; the evaluation that the gate judged.

    Raises what stopped it, after the row says so: Interrupted (the run is CANCELLED, and can be resumed), RunConflict
    (another process owns the run now: nothing is written), any other error (the run is FAILED).
    """
    with logs.about(logs.run_id, run.pk), log_file(run.log_path) as log:
        clock = StageClock()
        monitor = Monitor(run, (report, log, clock, StageLog(run.directory)))
        try:
            with stopped_by_signals(monitor):
                monitor.introduce()
                evaluation = _work(run, monitor)
                monitor.flush()
                clock.save(run.directory)
        except RunConflict:
            raise
        except (Interrupted, KeyboardInterrupt) as stop:
            monitor.flush()
            conclude(run, TrainingRun.State.CANCELLED, str(stop) or "interrupted")
            raise
        except RatchetError as error:
            conclude(run, TrainingRun.State.FAILED, str(error))
            raise
        except BaseException as error:
            conclude(run, TrainingRun.State.FAILED, f"{type(error).__name__}: {error}")
            raise
        conclude(run, TrainingRun.State.SUCCEEDED)
        return evaluation


def _work(run: TrainingRun, monitor: Monitor) -> Evaluation:
    terms = read_terms(run)
    options = terms.options
    TrainingRun.objects.filter(pk=run.pk).update(hardware=asdict(terms.hardware))
    if options.deploy:
        require_target(options.deploy, options.model_name)
    if run.version is None:
        base_models.require(terms.base_model)
    monitor("stage", {"name": "preparing data"})
    if terms.scorer:  # checked before anything is frozen or loaded
        rollouts.require_rewards(run.agent, options.rewards, options.grader)
    if isinstance(terms.config, AgentConfig):
        choose_gpu(terms.config.device)
    training_set = _freeze_data(run, terms, monitor)
    with device_lock(settings.DATA_DIR / "locks", terms.device, lambda: _wait(monitor)):
        with memory_for_training(run, monitor):
            _leave_cores(monitor)
            version = run.version or versions.register(run, _train(run, terms, training_set, monitor))
            versions.place_weights(run, version)
            monitor("stage", {"name": "evaluating"})
            evaluation = evaluate(version, training_set, monitor)
        return act_on_verdict(version, evaluation, options, monitor)


def _leave_cores(report: Report) -> None:
    """To the llama.cpp servers of this machine. Torch reads the variable when it is loaded."""
    serving = machine.serving_threads()
    if "OMP_NUM_THREADS" not in os.environ and (threads := machine.training_threads(serving)):
        os.environ["OMP_NUM_THREADS"] = str(threads)
        report("log", {"text": f"takes {threads} threads: llama.cpp may use {serving} here"})


def _wait(monitor: Monitor) -> None:
    if monitor.run.stage != "waiting for the device":
        monitor("stage", {"name": "waiting for the device"})
    monitor.flush()
    monitor.raise_if_stopped()


def _freeze_data(run: TrainingRun, terms: RunTerms, report: Report) -> TrainingSet:
    if run.training_set is not None:
        dataset_builder.reclaim(run.training_set)  # an attempt that failed had let its ratings go
        return run.training_set
    options, kind = terms.options, terms.rows.name
    how: dict[str, Any] = {"method": kind, "report": report}
    if terms.rows.of_tasks:
        source = tasks_of(run.agent, terms.config, options)
        for text in source.remarks:
            report("log", {"text": text})
        frozen = dataset_builder.freeze(run.agent, options.data, source, **how)
    else:
        # whether the answers have right ones is seen while they are written
        by_people = imitates(terms.config, run.method, "closed") and not bakes_in(terms.config)
        cross_fits = by_people and not options.launch.is_needed
        frozen = dataset_builder.freeze(run.agent, options.data, files_of(options), cross_fits=cross_fits, **how)
    keep(run, "its data was prepared", training_set=frozen)
    report("log", {"text": f"{frozen.train_rows} rows to train on, {frozen.heldout_rows} held out"})
    return frozen


def files_of(options: RunOptions) -> dataset_builder.FileSource | PromptFile | None:
    """None: the database."""
    if options.source == PromptFile.name:
        return PromptFile(options.data_file, options.ratings_file or None)
    return dataset_builder.FileSource(*options.files) if options.files else None


def tasks_of(agent: Agent, config: TrainingConfig, options: RunOptions) -> dataset_builder.TaskSource:
    """Raises UsageError or BadFile."""
    assert isinstance(config, AgentConfig)  # noqa: S101  the method's own
    settings = EnvironmentSettings(**config.environment).check()
    settings.require_keys()
    folder_and_splits = options.dataset_dir, options.train_split, options.eval_split
    share = options.data.val_split
    return dataset_builder.task_source(
        agent, settings, *folder_and_splits, val_split=share, curriculum=config.curriculum
    )


def _train(run: TrainingRun, terms: RunTerms, training_set: TrainingSet, monitor: Monitor) -> str:
    """Returns the base model that it trained, as ``base_models.resolve`` gave it."""
    options, method = terms.options, terms.method
    job = _job(run, terms, training_set, monitor)
    if options.launch.is_needed:
        alone: Train = partial(train_in_processes, run.method, options.launch)
    else:
        alone = leaf(method.module).train
    train = partial(train_within_memory, alone, least_rows=method.least_rows)
    if options.sweep:  # the best of three learning rates
        job = replace(job, config=swept(train, job, monitor, method.rows.name))
        keep(run, "rates were tried", config=job.config.as_dict())
    with _with_trackers(run, options, monitor) as tell:
        result = train(job, tell)
    monitor.complete(result.history)
    gc.collect()  # trainer and model refer to each other, and the next model may not fit beside this one
    result.save(run.directory / "result.json")
    draw_report(result, run.directory / "report.png", f"{run.agent.name}, run {run.pk}: {run.method}", monitor)
    return job.base_model


@contextmanager
def _with_trackers(run: TrainingRun, options: RunOptions, report: Report) -> Iterator[Report]:
    """The report, with the experiment trackers listening that were asked for."""
    names = tracker_names(options.report_to)
    if not names:
        yield report
        return
    listed = {"name": f"{run.agent.name}-{run.method}-{run.pk}", **options.tracked_as}
    with closing(leaf(TRACKERS).Trackers(names, run.directory, listed, run.config)) as follow:

        def tell(event: str, values: dict[str, Any]) -> None:
            follow(event, values)
            report(event, values)

        yield tell


def _job(run: TrainingRun, terms: RunTerms, training_set: TrainingSet, report: Report) -> TrainingJob:
    reward_model = terms.options.reward_model
    return TrainingJob(
        train_rows=training_set.directory / "train.jsonl",
        base_model=base_models.resolve(terms.base_model, report),
        config=settle_run(run, terms, training_set, report),
        output_dir=run.directory,
        resume=run.attempt > 1,
        scorer=terms.scorer,
        reward_model=versions.find(run.agent, reward_model) if reward_model else None,
        heldout_rows=training_set.directory / "heldout.jsonl",
        teacher=_teacher(run.agent) if bakes_in(terms.config) else None,
        folds=folds_of(training_set),
        tested=tested_of(training_set),
        choosing=choosing_of(training_set),
        schema=terms.options.answer_schema or schema_of(training_set),
        **{name: getattr(terms.options, name) for name in ("keep_passes", "eval_prompts", "eval_every")},
        kind=kind_of(training_set).kind,
    )


def _teacher(agent: Agent) -> Path | None:
    in_use = Deployment.champion(agent)
    return versions.find_weights(in_use) if in_use else None


def draw_report(result: TrainingResult, path: Path, title: str, report: Report) -> None:
    """A picture that cannot be drawn is told in the log; no run fails for it."""
    try:
        leaf("rl.runs.report.drawing").draw(result, path, title)
    except (UsageError, OSError, ValueError) as error:
        report("log", {"text": f"there is no {path.name}: {error}"})
