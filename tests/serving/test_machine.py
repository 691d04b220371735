import os
import time
from datetime import UTC, datetime

import pytest

from rl.models import Agent, Deployment
from rl.serving import machine


def requested(data_dir, seconds_ago: float) -> None:
    machine.note_request()
    then = time.time() - seconds_ago
    os.utime(data_dir / "gateway" / "last_request", (then, then))


@pytest.mark.parametrize(
    ("hours", "hour", "waits"),
    [
        (None, 12, ""),
        ((22, 6), 21, "waits for 22:00 UTC"),
        ((22, 6), 22, ""),
        ((22, 6), 5, ""),
        ((22, 6), 6, "waits for 22:00 UTC"),
        ((1, 4), 3, ""),
        ((1, 4), 4, "waits for 01:00 UTC"),
        ((20, 0), 23, ""),
        ((20, 0), 0, "waits for 20:00 UTC"),
    ],
)
def test_runs_wait_for_their_hours(settings, hours, hour: int, waits: str):
    settings.TRAINING_HOURS = hours
    assert machine.outside_training_hours(datetime(2026, 11, 22, hour, 30, tzinfo=UTC)) == waits


def test_a_machine_that_was_never_asked_is_not_busy(data_dir):
    assert machine.seconds_since_request() is None
    assert not machine.busy()


def test_it_is_busy_for_some_seconds_after_a_request(data_dir, settings):
    settings.PAUSE_TRAINING_SECONDS = 5
    requested(data_dir, seconds_ago=1)
    assert machine.busy()
    requested(data_dir, seconds_ago=6)
    assert not machine.busy()


def test_with_no_pause_configured_it_is_never_busy(data_dir, settings):
    settings.PAUSE_TRAINING_SECONDS = 0
    requested(data_dir, seconds_ago=0)
    assert not machine.busy()


def test_a_training_takes_the_cores_that_serving_leaves(agent: Agent, data_dir, monkeypatch):
    assert machine.training_threads(machine.serving_threads()) is None
    Deployment.objects.create(
        agent=agent, target="llama_cpp", settings={"threads": 3}, host=os.uname().nodename, pid=os.getpid()
    )
    Deployment.objects.create(agent=agent, target="llama_cpp", settings={"threads": 9}, host="another", pid=1)
    assert machine.serving_threads() == 3
    monkeypatch.setattr(machine, "usable_cores", lambda: 12)
    assert machine.training_threads(machine.serving_threads()) == 8


def test_what_is_decided_is_said_in_sentences(db, data_dir, settings):
    assert machine.decisions() == []
    hour = datetime.now(UTC).hour
    settings.TRAINING_HOURS = ((hour + 2) % 24, (hour + 3) % 24)
    settings.UNLOAD_WHILE_TRAINING = True
    requested(data_dir, seconds_ago=125)
    assert machine.decisions() == [
        f"A run that is queued waits for {(hour + 2) % 24:02}:00 UTC.",
        "The gateway's last request was 2 minutes ago: a training need not wait.",
        "Served models are taken out of memory while a run trains.",
    ]
