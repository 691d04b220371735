"""Runs outlive the processes that start them: spawning them detached, and picking up those that stopped beating."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import psutil
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from rl import dataset_builder
from rl.base import logs
from rl.base.errors import RunConflict
from rl.base.find_process import find_process
from rl.config import find_method
from rl.models import TrainingRun, run_ended
from rl.operations import audit
from rl.operations.audit import Action
from rl.operations.webhooks.events import run_finished
from rl.runs import child_environment, ray_jobs
from rl.serving import machine

logger = logging.getLogger(__name__)

START_GRACE = timedelta(seconds=60)
"""How long a claimed run may take to introduce its process, and a queued one to be started by its task."""


def enqueue(run: TrainingRun) -> None:
    """Has the queue start the run, once the row is committed."""
    from django_q.tasks import async_task  # reads the queue's settings when imported

    transaction.on_commit(lambda: async_task("rl.tasks.start_run", run.pk))


def requeue(run: TrainingRun) -> bool:
    """Has a failed or cancelled run wait again; False when it is neither, or another run of its agent is active."""
    with transaction.atomic():
        queued = run.requeue()
        if queued:
            audit.record(Action.RUN_QUEUED, f"run {run.pk}", agent=run.agent, method=run.method, resumed=True)
    return queued


def cancel(run: TrainingRun) -> bool:
    """Stops a queued run at once and asks a running one to stop; False when it is over already."""
    with transaction.atomic():
        cancelled = run.cancel()
        if cancelled:
            audit.record(Action.RUN_CANCELLED, f"run {run.pk}", agent=run.agent)
        if cancelled and not run.is_active:
            run_finished(run)
    return cancelled


def stop(run: TrainingRun) -> bool:
    """As ``cancel``; True when the run is at its end already, False when it stops after its current step. Raises RunConflict
    for one that was over before."""
    was_active = cancel(run)
    run.refresh_from_db()
    if not was_active:
        raise RunConflict(f"run {run.pk} is over already: {run.state}")
    return run.state == run.State.CANCELLED


def start(run: TrainingRun) -> bool:
    """Claims a queued run and starts its process; False when somebody else did, or outside of the training hours."""
    if waits := machine.outside_training_hours():
        TrainingRun.objects.filter(pk=run.pk, state=TrainingRun.State.QUEUED).update(stage=waits)
        return False
    if not run.claim():
        return False
    spawn(run)
    return True


def spawn(run: TrainingRun) -> None:
    """Starts the method's command with ``--run ID`` in a session of its own, or as a job of the Ray cluster.

    The run writes its log itself; the process's own output goes there too, for what breaks before or beneath the run.
    """
    run.directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *find_method(run.method).command.split()]
    command += ["--run", str(run.pk), "--attempt", str(run.attempt), "--verbosity", "0"]
    if settings.TRAINING_EXECUTOR == "ray":
        ray_jobs.submit(run, command)
        return
    trackers = str(run.options.get("report_to", "")).split(",")
    with run.log_path.open("ab") as log, child_environment.of_run(trackers) as (variables, descriptors):
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=variables,
            pass_fds=descriptors,
            start_new_session=True,
        )


def supervise() -> dict[str, int]:
    """One round of the reaper: starts forgotten runs, kills hung ones, resumes or fails the dead. Safe to run anywhere."""
    counts = {"started": 0, "resumed": 0, "failed": 0}
    forgotten = timezone.now() - START_GRACE
    for run in TrainingRun.objects.filter(state=TrainingRun.State.QUEUED, created_at__lt=forgotten):
        with _left_for_the_next_round(run):
            counts["started"] += start(run)
    for run in TrainingRun.objects.filter(state=TrainingRun.State.RUNNING):
        with _left_for_the_next_round(run):
            if reason := _cause_of_death(run):
                outcome = _resume_or_fail(run, reason)
                counts[outcome] += 1
    return counts


@contextmanager
def _left_for_the_next_round(run: TrainingRun) -> Iterator[None]:
    """A process that cannot be killed or started, or a full disk, must not keep the reaper from the other runs."""
    try:
        with logs.about(logs.run_id, run.pk):
            yield
    except (OSError, psutil.Error):
        logger.exception("run %s could not be supervised; the next round tries again", run.pk)


def _cause_of_death(run: TrainingRun) -> str:
    """Why the run's process is to be given up; empty while it works.

    A run on another machine is left to the reaper there, until it is clear that there is none any more.
    """
    silence = timezone.now() - (run.heartbeat_at or run.created_at)
    if settings.TRAINING_EXECUTOR == "ray" and (job := ray_jobs.find(run)):
        return _cause_of_the_jobs_death(run, job, silence)
    if run.pid is None:
        return "its process never came up" if silence > START_GRACE else ""
    allowed = timedelta(seconds=settings.RUN_HEARTBEAT_TIMEOUT)
    if run.host != os.uname().nodename:
        return f"nothing was heard from {run.host} for {_seconds(silence)}" if silence > 2 * allowed else ""
    process = find_process(run.pid, run.pid_started)
    if process is None:
        return "its process died"
    if silence > allowed:
        _kill_session(process)
        return f"it made no progress for {_seconds(silence)}"
    return ""


def _cause_of_the_jobs_death(run: TrainingRun, job: ray_jobs.RayJob, silence: timedelta) -> str:
    """A job that waits for a place in the cluster says nothing for as long as that takes."""
    if job.state not in ray_jobs.AT_WORK:
        return f"its Ray job is {job.state}: {job.message[:300]}"
    if run.pid is not None and silence > timedelta(seconds=settings.RUN_HEARTBEAT_TIMEOUT):
        ray_jobs.stop(run)
        return f"it made no progress for {_seconds(silence)}"
    return ""


def _seconds(silence: timedelta) -> str:
    return f"{int(silence.total_seconds())} seconds"


def is_alive(run: TrainingRun) -> bool:
    """Whether the run's process works on this machine, or may work on another."""
    return _cause_of_death(run) == ""


def conclude(run: TrainingRun, state: TrainingRun.State, error: str = "") -> bool:
    """Ends a run. Ratings that only a failed or cancelled run has seen wait for the next one again.

    Both or neither: a run that ended without letting its ratings go would keep them for ever.
    """
    with transaction.atomic():
        if not run.finish(state, error):
            return False
        if state != TrainingRun.State.SUCCEEDED and run.training_set is not None and run.version is None:
            dataset_builder.release(run.training_set)
        run_finished(run)
        transaction.on_commit(lambda: _tell_listeners(run))
        return True


def _tell_listeners(run: TrainingRun) -> None:
    """What a listener cannot do is logged: the run has ended all the same."""
    for _, answer in run_ended.send_robust(TrainingRun, run=run):
        if isinstance(answer, Exception):
            logger.error("after run %s: %s: %s", run.pk, type(answer).__name__, answer)


def claim_stopped(run: TrainingRun) -> TrainingRun:
    """Claims a queued, failed, cancelled or abandoned run for the caller, who goes on with it from its last checkpoint.

    Raises RunConflict when it is over, or somebody else works on it.
    """
    if run.state == TrainingRun.State.RUNNING:
        if is_alive(run) or not run.take_over():
            raise RunConflict(f"run {run.pk} is still at work")
        run.beat(cancel_requested=False)
        return run
    if run.state != TrainingRun.State.QUEUED and not requeue(run):
        active = run.agent.runs.filter(state__in=TrainingRun.ACTIVE).first()
        if active is None:
            raise RunConflict(f"run {run.pk} is {run.state} and cannot be resumed")
        cancel = f"manage.py runs cancel {active.pk}"
        raise RunConflict(f"run {active.pk} of {run.agent.name} is in progress; wait for it, or cancel it: {cancel}")
    if not run.claim():
        raise RunConflict(f"run {run.pk} was started by somebody else")
    return run


def _kill_session(process: psutil.Process) -> None:
    """With all that it started: its group, where it leads its own session, and processes that lead others, such as those
    that train together."""
    others = process.children(recursive=True)
    if os.getpgid(process.pid) == process.pid:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    for other in others:
        with suppress(psutil.NoSuchProcess):
            other.kill()
    process.wait(timeout=10)


def _resume_or_fail(run: TrainingRun, reason: str) -> str:
    logger.warning("run %s, attempt %s: %s", run.pk, run.attempt, reason)
    if run.cancel_requested:
        conclude(run, TrainingRun.State.CANCELLED, f"cancelled; {reason}")
        return "failed"
    if run.attempt >= settings.RUN_MAX_ATTEMPTS:
        conclude(run, TrainingRun.State.FAILED, f"given up after {run.attempt} attempts: {reason}")
        return "failed"
    if run.take_over():
        spawn(run)
    return "resumed"
