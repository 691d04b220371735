import os
import subprocess
import sys
import time
from datetime import timedelta

import psutil
import pytest
from django.utils import timezone

from rl.base.errors import RunConflict
from rl.models import Agent, TrainingRun, TrainingSet
from rl.runs import supervisor

pytestmark = pytest.mark.django_db
State = TrainingRun.State


@pytest.fixture
def spawned(monkeypatch, data_dir) -> list[int]:
    """Attempts for which a process would have been started; the process itself is not."""
    attempts: list[int] = []
    monkeypatch.setattr(supervisor, "spawn", lambda run: attempts.append(run.attempt))
    return attempts


@pytest.fixture
def run(agent) -> TrainingRun:
    run = TrainingRun.objects.create(agent=agent, method="dpo")
    run.claim()
    return run


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def works_on(run: TrainingRun, process: subprocess.Popen, silence: int = 0) -> None:
    run.beat(pid=process.pid, pid_started=psutil.Process(process.pid).create_time(), host=os.uname().nodename)
    TrainingRun.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - timedelta(seconds=silence))


@pytest.mark.process
def test_a_run_that_works_is_left_alone(run, sleeper, spawned):
    works_on(run, sleeper)
    assert supervisor.supervise() == {"started": 0, "resumed": 0, "failed": 0}
    assert spawned == []


@pytest.mark.process
def test_a_run_whose_process_was_killed_gets_its_next_attempt(run, sleeper, spawned):
    works_on(run, sleeper)
    sleeper.kill()
    sleeper.wait()
    assert supervisor.supervise()["resumed"] == 1
    run.refresh_from_db()
    assert (run.state, run.attempt, spawned) == (State.RUNNING, 2, [2])


@pytest.mark.process
def test_a_zombie_counts_as_dead(run, sleeper, spawned):
    works_on(run, sleeper)
    sleeper.kill()
    while psutil.Process(sleeper.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert supervisor.supervise()["resumed"] == 1


@pytest.mark.database
@pytest.mark.process
def test_another_process_with_the_same_number_is_not_mistaken_for_the_run(run, sleeper, spawned):
    works_on(run, sleeper)
    run.beat(pid_started=1.0)
    assert supervisor.supervise()["resumed"] == 1
    assert sleeper.poll() is None


@pytest.mark.process
def test_a_hung_process_is_killed_and_the_run_resumed(run, sleeper, spawned, settings):
    works_on(run, sleeper, silence=settings.RUN_HEARTBEAT_TIMEOUT + 1)
    assert supervisor.supervise()["resumed"] == 1
    assert not psutil.pid_exists(sleeper.pid)


@pytest.mark.process
def test_processes_that_train_together_die_with_the_one_that_hung(run, spawned, settings):
    """Each leads a session of its own, as those of a launcher do."""
    start = "import subprocess, sys; print(subprocess.Popen({!r}, start_new_session=True).pid, flush=True); {}"
    sleep = "import time; time.sleep(60)"
    parent = [sys.executable, "-c", start.format([sys.executable, "-c", sleep], sleep)]
    process = subprocess.Popen(parent, start_new_session=True, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    worker = psutil.Process(int(process.stdout.readline()))
    works_on(run, process, silence=settings.RUN_HEARTBEAT_TIMEOUT + 1)
    assert supervisor.supervise()["resumed"] == 1
    psutil.wait_procs([worker], timeout=60)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def test_a_run_that_keeps_dying_is_failed_with_its_reason(run, spawned, settings):
    for _ in range(settings.RUN_MAX_ATTEMPTS):
        TrainingRun.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
        supervisor.supervise()
    run.refresh_from_db()
    assert run.state == State.FAILED
    assert "given up after 3 attempts: its process never came up" in run.error
    assert spawned == [2, 3]


def test_a_run_that_was_to_be_cancelled_when_it_died_is_cancelled(run, spawned):
    run.cancel()
    TrainingRun.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
    supervisor.supervise()
    run.refresh_from_db()
    assert (run.state, spawned) == (State.CANCELLED, [])


def elsewhere(run: TrainingRun, silence: float) -> None:
    run.beat(host="elsewhere", pid=999_999, pid_started=1.0)
    TrainingRun.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - timedelta(seconds=silence))


def test_a_run_on_another_machine_is_first_left_to_the_reaper_there(run, spawned, settings):
    elsewhere(run, settings.RUN_HEARTBEAT_TIMEOUT + 60)
    assert supervisor.supervise() == {"started": 0, "resumed": 0, "failed": 0}


@pytest.mark.database
def test_a_run_whose_machine_is_gone_is_resumed_here(run, spawned, settings):
    elsewhere(run, 2 * settings.RUN_HEARTBEAT_TIMEOUT + 1)
    assert supervisor.supervise()["resumed"] == 1
    assert spawned == [2]


def test_a_cancelled_run_whose_machine_is_gone_does_not_block_its_agent(run, spawned, settings):
    run.cancel()
    elsewhere(run, 2 * settings.RUN_HEARTBEAT_TIMEOUT + 1)
    supervisor.supervise()
    run.refresh_from_db()
    assert (run.state, spawned) == (State.CANCELLED, [])


def test_a_run_that_cannot_be_restarted_does_not_keep_the_reaper_from_the_others(run, monkeypatch, data_dir):
    other = TrainingRun.objects.create(agent=Agent.objects.create(name="other"), method="dpo")
    other.claim()
    TrainingRun.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
    tried: list[int] = []

    def spawn(of: TrainingRun) -> None:
        tried.append(of.pk)
        raise OSError("no space left on device")

    monkeypatch.setattr(supervisor, "spawn", spawn)
    supervisor.supervise()
    assert sorted(tried) == [run.pk, other.pk]


@pytest.mark.database
def test_a_run_that_ends_badly_lets_its_ratings_go_or_does_not_end(run, monkeypatch):
    run.training_set = TrainingSet.objects.create(
        agent=run.agent,
        method="dpo",
        content_hash="0" * 64,
        train_rows=1,
        heldout_rows=1,
        feedback_count=1,
        val_split=0.2,
    )
    run.save()
    release = supervisor.dataset_builder.release

    def killed(training_set: TrainingSet) -> int:
        raise SystemExit

    monkeypatch.setattr(supervisor.dataset_builder, "release", killed)
    with pytest.raises(SystemExit):
        supervisor.conclude(run, State.FAILED, "out of memory")
    run.refresh_from_db()
    assert run.state == State.RUNNING
    monkeypatch.setattr(supervisor.dataset_builder, "release", release)
    assert supervisor.conclude(run, State.FAILED, "out of memory")
    run.refresh_from_db()
    assert run.state == State.FAILED


def test_a_run_that_cannot_be_resumed_because_of_another_one_says_so(agent):
    stopped = TrainingRun.objects.create(agent=agent, method="dpo", state=State.FAILED)
    active = TrainingRun.objects.create(agent=agent, method="dpo")
    with pytest.raises(RunConflict, match=f"run {active.pk} of support-chat is in progress"):
        supervisor.claim_stopped(stopped)


@pytest.mark.database
def test_a_queued_run_that_its_task_forgot_is_started(agent, spawned):
    run = TrainingRun.objects.create(agent=agent, method="dpo")
    assert supervisor.supervise()["started"] == 0
    TrainingRun.objects.update(created_at=timezone.now() - timedelta(minutes=5))
    assert supervisor.supervise()["started"] == 1
    run.refresh_from_db()
    assert (run.state, spawned) == (State.RUNNING, [1])


def test_a_task_delivered_twice_starts_one_process(agent, spawned):
    run = TrainingRun.objects.create(agent=agent, method="dpo")
    same = TrainingRun.objects.get(pk=run.pk)
    assert supervisor.start(run)
    assert not supervisor.start(same)
    assert spawned == [1]


@pytest.mark.database
def test_outside_of_the_training_hours_a_run_stays_queued_and_says_until_when(agent, spawned, settings):
    hour = timezone.now().hour
    settings.TRAINING_HOURS = ((hour + 2) % 24, (hour + 3) % 24)
    run = TrainingRun.objects.create(agent=agent, method="dpo")
    assert not supervisor.start(run)
    run.refresh_from_db()
    assert (run.state, run.stage) == (State.QUEUED, f"waits for {(hour + 2) % 24:02}:00 UTC")
    settings.TRAINING_HOURS = None
    assert supervisor.start(run)
    assert spawned == [1]
