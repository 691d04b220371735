"""What is deleted after its days, and what never is."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone
from django_q.models import OrmQ

from rl import tasks
from rl.models import (
    Agent,
    Arm,
    AuditEvent,
    Episode,
    Experiment,
    Feedback,
    Trace,
    TrainingRun,
    TrainingSet,
    TrainingSetTrace,
    WaitingRating,
    WebhookDelivery,
)
from rl.operations import retention
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
SETTINGS = [kind.setting for kind in retention.KINDS.values()]
OLD = timedelta(days=31)


@pytest.fixture
def thirty_days(settings, data_dir: Path, monkeypatch) -> None:
    monkeypatch.setattr(retention, "PAUSE_SECONDS", 0)
    for name in SETTINGS:
        setattr(settings, name, 30)


def old_trace(agent: Agent, response: str, **fields) -> Trace:
    trace = make_trace(agent, response=response, **fields)
    Trace.objects.filter(pk=trace.pk).update(created_at=timezone.now() - OLD)
    return trace


def counts(rows: list[retention.Expired]) -> dict[str, int | None]:
    return {row.kind: row.count for row in rows}


def test_by_default_everything_is_kept(agent: Agent, data_dir: Path):
    old_trace(agent, "forgotten")
    kept = counts(retention.delete_expired()[0])
    assert kept.pop("waiting ratings") == 0
    assert set(kept.values()) == {None}
    assert Trace.objects.count() == 1


@pytest.mark.database
@pytest.mark.process
def test_ratings_whose_answer_never_came_go_after_the_days_of_a_token(agent: Agent, data_dir: Path, settings):
    settings.TRACE_TOKEN_DAYS = 30
    fields = {"agent": agent, "rater": "device:x", "value": 1, "rated_at": timezone.now()}
    old, new = (WaitingRating.objects.create(entry_id=name, **fields) for name in ("old", "new"))
    WaitingRating.objects.filter(pk=old.pk).update(updated_at=timezone.now() - OLD)
    assert counts(retention.count_expired())["waiting ratings"] == 1
    assert counts(retention.delete_expired()[0])["waiting ratings"] == 1
    assert WaitingRating.objects.get() == new


@pytest.mark.database
def test_only_traces_that_nothing_depends_on_are_deleted(agent: Agent, thirty_days: None):
    learned = TrainingSet.objects.create(
        agent=agent, method="dpo", content_hash="0", train_rows=1, heldout_rows=1, feedback_count=1, val_split=0.2
    )
    trials = {
        state: Experiment.objects.create(agent=agent, name=state, state=state) for state in ("running", "stopped")
    }
    arms = {state: Arm.objects.create(experiment=trial) for state, trial in trials.items()}
    for each in ("forgotten", "forgotten too"):
        old_trace(agent, each)
    rated, left, right = (old_trace(agent, text) for text in ("rated", "left", "right"))
    Feedback.objects.create(agent=agent, trace=rated, kind="rating", rater="ann", scale="thumb", raw_value=1, value=1)
    Feedback.objects.create(agent=agent, trace=left, other_trace=right, kind="comparison", rater="ann", choice="left")
    TrainingSetTrace.objects.create(training_set=learned, trace=old_trace(agent, "learned"))
    Episode.objects.create(agent=agent, trace=old_trace(agent, "episode"), task_id="t", success=True, turns=1)
    old_trace(agent, "of a running experiment", arm=arms["running"])
    old_trace(agent, "of an experiment that is over", arm=arms["stopped"])
    make_trace(agent, response="new")

    assert counts(retention.count_expired())["traces"] == 3
    assert counts(retention.delete_expired()[0])["traces"] == 3
    assert set(Trace.objects.values_list("response", flat=True)) == {
        "rated",
        "left",
        "right",
        "learned",
        "episode",
        "of a running experiment",
        "new",
    }
    assert Feedback.objects.count() == 2


def test_a_trace_that_is_rated_while_it_is_chosen_stays(agent: Agent, thirty_days: None):
    chosen = retention._traces(timezone.now())
    keys = [old_trace(agent, text).pk for text in ("forgotten", "rated just now")]
    rated = Trace.objects.get(pk=keys[1])
    Feedback.objects.create(agent=agent, trace=rated, kind="rating", rater="ann", scale="thumb", raw_value=1, value=1)
    assert retention._delete_rows(chosen, keys) == 1
    assert list(Trace.objects.all()) == [rated]


def test_rows_are_deleted_in_parts_until_none_is_left(agent: Agent, thirty_days: None, monkeypatch):
    monkeypatch.setattr(retention, "CHUNK", 3)
    for number in range(10):
        old_trace(agent, str(number))
    assert list(retention.KINDS["traces"].delete(timezone.now())) == [3, 3, 3, 1]


def test_checkpoints_and_logs_go_only_when_their_run_is_over(agent: Agent, thirty_days: None, data_dir: Path):
    ended = timezone.now() - OLD
    over = TrainingRun.objects.create(agent=agent, method="dpo", state="failed", finished_at=ended)
    active = TrainingRun.objects.create(agent=agent, method="dpo", state="running")
    lately = TrainingRun.objects.create(agent=agent, method="dpo", state="succeeded", finished_at=timezone.now())
    for run in (over, active, lately):
        (run.directory / "checkpoint-4").mkdir(parents=True)
        (run.directory / "result.json").touch()
        run.log_path.touch()
    (data_dir / "servers").mkdir()
    for name, age in (("1.log", OLD.total_seconds()), ("2.log", 0)):
        (data_dir / "servers" / name).touch()
        os.utime(data_dir / "servers" / name, (time.time() - age,) * 2)

    assert counts(retention.delete_expired()[0]) | {"traces": 0} == {
        "waiting ratings": 0,
        "traces": 0,
        "logs": 2,
        "checkpoints": 1,
        "webhook deliveries": 0,
        "audit events": 0,
    }
    assert [path.name for path in over.directory.iterdir()] == ["result.json"]
    for run in (active, lately):
        assert sorted(path.name for path in run.directory.iterdir()) == ["checkpoint-4", "log.txt", "result.json"]
    assert [path.name for path in (data_dir / "servers").iterdir()] == ["2.log"]


@pytest.mark.database
def test_deliveries_that_wait_are_kept(thirty_days: None):
    for state in WebhookDelivery.State.values:
        WebhookDelivery.objects.create(endpoint="shop", event="run.finished", occurrence=state, payload={}, state=state)
    WebhookDelivery.objects.update(created_at=timezone.now() - OLD)
    assert counts(retention.delete_expired()[0])["webhook deliveries"] == 2
    assert list(WebhookDelivery.objects.values_list("state", flat=True)) == ["waiting"]


@pytest.mark.database
def test_what_was_deleted_stands_in_the_audit_log(agent: Agent, thirty_days: None):
    AuditEvent.objects.create(actor="user:bob", action="signed_in")
    AuditEvent.objects.update(at=timezone.now() - OLD)
    old_trace(agent, "forgotten")
    retention.delete_expired()
    events = AuditEvent.objects.filter(action="expired").order_by("target")
    assert [(event.target, event.details["count"], event.details["days"]) for event in events] == [
        ("audit events", 1, 30),
        ("traces", 1, 30),
    ]
    assert not AuditEvent.objects.filter(action="signed_in").exists()


def test_a_dry_run_deletes_nothing(agent: Agent, thirty_days: None, capsys):
    old_trace(agent, "forgotten")
    call_command("retention", dry_run=True)
    told = capsys.readouterr().out
    assert "KEEP_TRACES_DAYS" in told
    assert "would be deleted" in told
    assert Trace.objects.count() == 1
    call_command("retention")
    assert Trace.objects.count() == 0


def test_the_queue_goes_on_later_with_what_takes_long(agent: Agent, thirty_days: None, monkeypatch):
    monkeypatch.setattr(retention, "CHUNK", 1)
    for number in range(2):
        old_trace(agent, str(number))
    real = retention.delete_expired
    monkeypatch.setattr(retention, "delete_expired", lambda seconds: real(seconds=0))
    assert tasks.delete_expired() == {"traces": 1}
    assert [message.task["func"] for message in OrmQ.objects.all()] == ["rl.tasks.delete_expired"]
