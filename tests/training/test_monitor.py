from __future__ import annotations

from typing import Any

import pytest

from rl.errors import Interrupted, RunConflict
from rl.models import Agent, Trace, TrainingRun
from rl.training.monitor import Monitor
from tests.collect.made_episodes import trained


def told(*samples: int) -> dict[str, Any]:
    return {"episodes": [trained(step=1, sample=sample).as_document() for sample in samples]}


@pytest.fixture
def run(agent: Agent) -> TrainingRun:
    run = TrainingRun.objects.create(agent=agent, method="agent")
    run.claim()
    return run


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
