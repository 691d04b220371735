import signal
from typing import Any

import pytest

from rl.base.errors import Interrupted, RunConflict
from rl.models import Agent, Trace, TrainingRun
from rl.runs.monitor import Monitor, stopped_by_signals
from tests.collect.made_episodes import trained


def told(*samples: int) -> dict[str, Any]:
    return {"episodes": [trained(step=1, sample=sample).as_document() for sample in samples]}


@pytest.fixture
def run(agent: Agent) -> TrainingRun:
    run = TrainingRun.objects.create(agent=agent, method="agent")
    run.claim()
    return run


@pytest.mark.database
def test_episodes_are_stored_as_the_run_s(run):
    heard = []
    Monitor(run, [lambda event, values: heard.append(event)])("episodes", told(0, 1))
    assert run.episodes.count() == 2
    assert set(Trace.objects.values_list("agent__name", "session_id")) == {("support-chat", f"run-{run.pk}")}
    assert heard == ["episodes"]


def test_episodes_that_are_told_again_count_once(run):
    monitor = Monitor(run, [])
    monitor("episodes", told(0, 1))
    monitor("episodes", told(1, 2))
    assert run.episodes.count() == 3


def test_an_attempt_that_was_given_up_stores_nothing(run):
    monitor = Monitor(run, [])
    TrainingRun.objects.get(pk=run.pk).take_over()
    with pytest.raises(RunConflict):
        monitor("episodes", told(0))
    assert not Trace.objects.exists()


def test_a_run_that_is_to_stop_keeps_what_it_was_told(run):
    TrainingRun.objects.get(pk=run.pk).cancel()
    with pytest.raises(Interrupted, match="cancelled"):
        Monitor(run, [])("episodes", told(0))
    assert run.episodes.count() == 1


def test_a_training_makes_way_for_requests_and_says_so(run, monkeypatch):
    moments = iter([True, True, True, False])
    monkeypatch.setattr("rl.serving.machine.busy", lambda: next(moments))
    monkeypatch.setattr("rl.runs.monitor.PAUSE_POLL_SECONDS", 0.0)
    stages, heard = [], {}
    monkeypatch.setattr(Monitor, "flush", lambda self: stages.append(self.run.stage))
    monitor = Monitor(run, [heard.__setitem__])
    run.stage = "training"
    monitor("step", {"step": 1, "total_steps": 9, "metrics": {}})
    assert stages == ["waits while you talk"] * 2
    assert run.stage == "training"
    assert heard["log"] == {"text": "paused 0 s for requests"}
    assert 0 <= heard["paused"]["seconds"] < 0.5


@pytest.mark.process
def test_a_site_that_is_never_quiet_does_not_stop_a_training_for_ever(run, monkeypatch):
    monkeypatch.setattr("rl.serving.machine.busy", lambda: True)
    monkeypatch.setattr("rl.serving.machine.LONGEST_PAUSE", 0.05)
    monkeypatch.setattr("rl.runs.monitor.PAUSE_POLL_SECONDS", 0.01)
    Monitor(run, [])("step", {"step": 1, "total_steps": 9, "metrics": {}})


@pytest.mark.process
def test_a_paused_training_can_be_cancelled(run, monkeypatch):
    monkeypatch.setattr("rl.serving.machine.busy", lambda: True)
    TrainingRun.objects.get(pk=run.pk).cancel()
    with pytest.raises(Interrupted, match="cancelled"):
        Monitor(run, [])("step", {"step": 1, "total_steps": 9, "metrics": {}})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_of_either_kind_ends_the_run_at_once(run, number, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("rl.runs.monitor.time.monotonic", lambda: now[0])
    monitor = Monitor(run, [])
    with stopped_by_signals(monitor):
        signal.raise_signal(number)
        assert monitor.stop_reason == f"stopped by {number.name}"
        now[0] += 3
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_a_sigterm_that_the_parent_hands_on_is_the_same(run):
    monitor = Monitor(run, [])
    with stopped_by_signals(monitor):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert monitor.stop_reason == "stopped by SIGTERM"
