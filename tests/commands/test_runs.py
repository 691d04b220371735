"""Runs, listed and cancelled from the terminal."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from rl.models import Agent, TrainingRun

pytestmark = pytest.mark.django_db


def runs(*arguments: str) -> dict:
    output = StringIO()
    call_command("runs", *arguments, "--json", stdout=output, verbosity=0)
    document: dict = json.loads(output.getvalue())
    return document


@pytest.mark.database
def test_runs_are_listed_newest_first_and_one_that_waits_is_cancelled(agent: Agent):
    numbers = [TrainingRun.objects.create(agent=agent, method="dpo", state=state).pk for state in ("failed", "queued")]
    assert [run["run"] for run in runs("list", "--agent", "support-chat")["runs"]] == numbers[::-1]
    assert runs("cancel", str(numbers[1]))["state"] == "cancelled"
    with pytest.raises(CommandError, match=f"run {numbers[1]} is over already: cancelled") as refusal:
        runs("cancel", str(numbers[1]))
    assert refusal.value.returncode == 1


def test_one_at_work_is_asked_to_stop_and_one_that_is_not_there_is_told(agent: Agent):
    run = TrainingRun.objects.create(agent=agent, method="dpo")
    run.claim()
    output = StringIO()
    call_command("runs", "cancel", str(run.pk), stdout=output, verbosity=0)
    assert output.getvalue() == f"run {run.pk} stops after its current step\n"
    run.refresh_from_db()
    assert run.cancel_requested
    with pytest.raises(CommandError, match="there is no run 4711") as refusal:
        runs("cancel", "4711")
    assert refusal.value.returncode == 2
