"""One training run from ratings to a measured version. A terminal, the queue and the tests take this same road.

``create`` makes the row, ``execute`` does the work of a claimed one: freeze the data, train, register the version,
evaluate it, pass the gate, export. Every stage looks at what an earlier attempt has finished already, so a run that was
killed anywhere goes on from there.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from rl import dataset_builder
from rl.base import logs
from rl.base.errors import Interrupted, RatchetError, RunConflict
from rl.base.files import remove
from rl.base.leaves import leaf
from rl.base.locks import device_lock
from rl.base.records import Report, TrainingResult
from rl.config import AgentConfig, TrainingConfig, config_class, find_method, find_rows
from rl.config.authority import Owner
from rl.config.automatic import imitates
from rl.config.training_job import TrainingJob
from rl.dataset_builder.accepted_answers import choosing_of, folds_of, kind_of, schema_of, tested_of
from rl.environments.settings import EnvironmentSettings
from rl.evaluation.evaluate import evaluate
from rl.hardware import choose_gpu, detect_hardware
from rl.lm import base_models
from rl.models import Agent, Evaluation, TrainingRun, TrainingSet
from rl.operations import audit
from rl.runs import choosing
from rl.runs.after_gate import act_on_verdict
from rl.runs.ladder import Train, train_within_memory
from rl.runs.monitor import Monitor, stopped_by_signals
from rl.runs.processes.follow import train as train_in_processes
from rl.runs.progress import log_file
from rl.runs.report.charts import draw_report
from rl.runs.report.tracker_names import tracker_names
from rl.runs.run_options import RunOptions as RunOptions
from rl.runs.settling import settle_run
from rl.runs.stage_clock import StageClock
from rl.runs.stage_log import StageLog
from rl.runs.supervisor import conclude
from rl.runs.sweep import swept
from rl.scoring import rollouts
from rl.serving import machine
from rl.serving.deploy import require_target
from rl.serving.unloading import memory_for_training
from rl.training import method
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
    rollouts.check_rollouts(agent, method_name, config, options.rewards, options.reward_model)
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
    choosing.require_origins(run)
    options = RunOptions.from_dict(run.options)
    hardware = detect_hardware(settings.DATA_DIR)
    TrainingRun.objects.filter(pk=run.pk).update(hardware=asdict(hardware))
    if options.deploy:
        require_target(options.deploy, options.model_name)
    if run.version is None:
        base_models.require(options.base_model or run.agent.base_model)
    monitor("stage", {"name": "preparing data"})
    _require_rewards(run, options)
    config = _config(run)
    if isinstance(config, AgentConfig):
        choose_gpu(config.device)
    training_set = _freeze_data(run, options, monitor)
    device = "gpu" if hardware.gpus else "cpu"
    with device_lock(settings.DATA_DIR / "locks", device, lambda: _wait(monitor)):
        with memory_for_training(run, monitor):
            _leave_cores(monitor)
            version = run.version or versions.register(run, _train(run, training_set, options, monitor))
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


def _require_rewards(run: TrainingRun, options: RunOptions) -> None:
    """Checks the rewards before anything is frozen or loaded. Raises NotEnoughData or UsageError."""
    if rollouts.generates(run.method, _config(run)) and not options.reward_model:
        rollouts.require_rewards(run.agent, options.rewards)


def _config(run: TrainingRun) -> TrainingConfig:
    return config_class(run.method)(**run.config)


def _freeze_data(run: TrainingRun, options: RunOptions, report: Report) -> TrainingSet:
    if run.training_set is not None:
        dataset_builder.reclaim(run.training_set)  # an attempt that failed had let its ratings go
        return run.training_set
    frozen = _make_training_set(run, options, report)
    if not run.beat(training_set=frozen):
        raise RunConflict(f"run {run.pk} was taken over while its data was prepared; this process stops")
    report("log", {"text": f"{frozen.train_rows} rows to train on, {frozen.heldout_rows} held out"})
    return frozen


def _make_training_set(run: TrainingRun, options: RunOptions, report: Report) -> TrainingSet:
    agent, config = run.agent, _config(run)
    kind = rollouts.row_kind(run.method, config)
    if find_rows(kind).of_tasks:
        source = tasks_of(agent, config, options)
        for text in source.remarks:
            report("log", {"text": text})
        return dataset_builder.freeze_tasks(agent, source, options.data, method=kind, report=report)
    # whether the answers have right ones is seen while they are written
    cross_fits = imitates(config, run.method, "closed") and not options.launch.is_needed
    how: dict[str, Any] = {"method": kind, "cross_fits": cross_fits, "report": report}
    if options.source == "file":
        files = options.data_file, options.ratings_file or None
        return dataset_builder.freeze_files(agent, *files, options.data, **how)
    return dataset_builder.freeze(agent, options.data, **how)


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


def _train(run: TrainingRun, training_set: TrainingSet, options: RunOptions, monitor: Monitor) -> TrainingResult:
    job = _job(run, training_set, options, monitor)
    train = partial(train_within_memory, _trainer(run, options))
    if options.sweep:
        job = replace(job, config=_swept(run, partial(train, method=run.method), job, monitor))
    with _with_trackers(run, options, monitor) as tell:
        result = train(job, tell, run.method)
    monitor.complete(result.history)
    gc.collect()  # trainer and model refer to each other, and the next model may not fit beside this one
    result.save(run.directory / "result.json")
    draw_report(result, run.directory / "report.png", f"{run.agent.name}, run {run.pk}: {run.method}", monitor)
    return result


def _swept(run: TrainingRun, train: Train, job: TrainingJob, report: Report) -> TrainingConfig:
    """The job's configuration with the best of three learning rates, which is stored."""
    config = swept(train, job, report, run.method)
    if not run.beat(config=config.as_dict()):
        raise RunConflict(f"run {run.pk} was taken over while rates were tried; this process stops")
    return config


def _trainer(run: TrainingRun, options: RunOptions) -> Train:
    """The method's ``train``, here or in as many processes as were asked for."""
    if options.launch.is_needed:
        return partial(train_in_processes, run.method, options.launch)
    train: Train = method(run.method).train
    return train


@contextmanager
def _with_trackers(run: TrainingRun, options: RunOptions, report: Report) -> Iterator[Report]:
    """The report, with the experiment trackers listening that were asked for."""
    names = tracker_names(options.report_to)
    if not names:
        yield report
        return
    title = f"{run.agent.name}-{run.method}-{run.pk}"
    with leaf(TRACKERS).following(names, run.directory, title, run.config) as follow:

        def tell(event: str, values: dict[str, Any]) -> None:
            follow(event, values)
            report(event, values)

        yield tell


def _job(run: TrainingRun, training_set: TrainingSet, options: RunOptions, report: Report) -> TrainingJob:
    base_model = options.base_model or run.agent.base_model
    resolved = base_models.resolve(base_model, report)
    config = settle_run(run, training_set, options, base_model, report)
    by_rewards = rollouts.generates(run.method, config) and not options.reward_model
    return TrainingJob(
        train_rows=training_set.directory / "train.jsonl",
        base_model=resolved,
        config=config,
        output_dir=run.directory,
        resume=run.attempt > 1,
        scorer=rollouts.AgentScorer(run.agent.name, options.rewards) if by_rewards else None,
        reward_model=versions.find(run.agent, options.reward_model) if options.reward_model else None,
        heldout_rows=training_set.directory / "heldout.jsonl",
        folds=folds_of(training_set),
        tested=tested_of(training_set),
        choosing=choosing_of(training_set),
        schema=schema_of(training_set),
        kind=kind_of(training_set).kind,
    )
