import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from rl.models import Agent, ApiKey, Arm, Assignment, Experiment, ModelVersion, Trace
from rl.serving.gateway import answer_rows, pending
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(data_dir: Path) -> Path:
    return data_dir / "gateway" / "pending"


@pytest.fixture
def arm(agent: Agent) -> Arm:
    trial = Experiment.objects.create(agent=agent, name="trial", state="running")
    return Arm.objects.create(experiment=trial, is_control=True)


def document(agent: Agent, arm: Arm | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "agent_id": agent.pk,
        "model_version_id": None,
        "version": "base",
        "experiment_id": arm and arm.experiment_id,
        "arm_id": arm and arm.pk,
        "unit": "anna",
        "session_id": "s1",
        "api_key_id": 0,
        "failed": False,
        "prompt": [{"role": "user", "content": "Grüße?"}],
        "response": "On its way.",
        "tool_calls": [],
        "reasoning_steps": [],
        "tokens_in": 3,
        "tokens_out": 4,
        "duration_ms": 5,
        "occurred_at": "2026-02-02T10:00:00+00:00",
        "details": {"complete": True},
        **changes,
    }


def written(one: dict[str, Any]) -> uuid.UUID:
    trace_id = uuid.uuid4()
    pending.write(trace_id, one)
    return trace_id


def test_an_answer_becomes_a_trace_and_its_file_goes(agent: Agent, folder: Path):
    trace_id = written(document(agent))
    assert (folder / f"{trace_id}.json").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert pending.deliver_all() == 1
    trace = Trace.objects.get(pk=trace_id)
    assert (trace.response, trace.prompt[0]["content"], trace.source) == ("On its way.", "Grüße?", "gateway")
    assert (trace.external_id, trace.unit, trace.session_id) == (str(trace_id), "anna", "s1")
    assert trace.prompt_key == make_trace(agent, "Grüße?").prompt_key
    assert trace.occurred_at.isoformat() == "2026-02-02T10:00:00+00:00"
    assert list(folder.iterdir()) == []


@pytest.mark.database
def test_arms_are_counted_and_users_assigned_once(agent: Agent, arm: Arm, folder: Path):
    first = document(agent, arm)
    trace_id = written(first)
    written(document(agent, arm, unit="bert", failed=True))
    pending.deliver_all()
    pending.write(trace_id, first)  # its process was killed before it removed the file
    pending.deliver_all()
    arm.refresh_from_db()
    assert (arm.requests, arm.failures) == (2, 1)
    assert sorted(Assignment.objects.values_list("unit", flat=True)) == ["anna", "bert"]
    assert set(Trace.objects.values_list("arm_id", flat=True)) == {arm.pk}


@pytest.mark.database
def test_requests_without_an_answer_are_failures(agent: Agent, arm: Arm):
    answer_rows.store(
        {}, [answer_rows.Unanswered(arm.experiment_id, arm.pk, unit) for unit in ("anna", "anna", "bert")]
    )
    arm.refresh_from_db()
    assert (arm.requests, arm.failures, Assignment.objects.count(), Trace.objects.count()) == (3, 3, 2, 0)


@pytest.mark.database
def test_who_is_moved_to_another_arm_is_assigned_to_it(agent: Agent, arm: Arm):
    version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1)
    other = Arm.objects.create(experiment=arm.experiment, version=version)
    for one in (arm, other):
        answer_rows.store({uuid.uuid4(): document(agent, one)})
    assert Assignment.objects.get().arm_id == other.pk


@pytest.mark.database
def test_what_was_deleted_meanwhile_is_left_out(agent: Agent, arm: Arm, folder: Path, caplog):
    gone = Agent.objects.create(name="gone")
    written(document(gone))
    trace_id = written(document(agent, arm, model_version_id=99, version="v99"))
    gone.delete()
    Experiment.objects.all().delete()
    pending.deliver_all()
    trace = Trace.objects.get()
    assert (trace.pk, trace.arm_id, trace.model_version_id) == (trace_id, None, None)
    assert trace.details["model_version"] == "v99"
    assert "1 answers of agents that were deleted" in caplog.text
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"agent_id": 1}', ""])
def test_a_file_that_cannot_be_stored_is_set_aside_and_the_others_are_not(
    agent: Agent, folder: Path, text: str, caplog
):
    good, bad = written(document(agent)), uuid.uuid4()
    (folder / f"{bad}.json").write_text(text)
    assert pending.deliver_all() == 1
    assert Trace.objects.get().pk == good
    assert [path.name for path in folder.iterdir()] == [f"{bad}.json.broken"]
    assert str(bad) in caplog.text
    assert pending.deliver_all() == 0


def test_a_database_that_refuses_leaves_the_files(agent: Agent, folder: Path, monkeypatch):
    written(document(agent))

    def locked(*args: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(pending, "store", locked)
    with pytest.raises(OperationalError):
        pending.deliver_all()
    assert len(list(folder.iterdir())) == 1


def test_one_answer_is_delivered_by_name_and_no_path_is_one(agent: Agent, folder: Path, data_dir: Path):
    trace_id = written(document(agent))
    outside = data_dir / "x.json"
    outside.write_text("{}")
    names = ["../../x", "e00001", f"{{{trace_id}}}", str(uuid.uuid4())]
    assert pending.deliver_named(names) == names[-1:]
    assert Trace.objects.count() == 0
    assert pending.deliver_named([str(trace_id)]) == [str(trace_id)]
    assert Trace.objects.get().pk == trace_id
    assert outside.exists()


def test_an_answer_that_opentelemetry_told_of_first_is_stored_all_the_same(agent: Agent, folder: Path):
    trace_id = written(document(agent))
    make_trace(agent, external_id=str(trace_id))
    pending.deliver_all()
    assert Trace.objects.get(pk=trace_id).external_id is None


def test_the_use_of_a_key_is_noted(agent: Agent, folder: Path):
    row, _ = ApiKey.create(name="app", kind="secret")
    written(document(agent, api_key_id=row.pk))
    pending.deliver_all()
    row.refresh_from_db()
    assert row.last_used_at is not None


def test_what_a_killed_process_began_to_write_is_removed_after_a_while(agent: Agent, folder: Path):
    written(document(agent))
    partial = folder / f".{uuid.uuid4()}.partial"
    partial.write_text("{")
    pending.deliver_all()
    assert partial.exists()
    os.utime(partial, (0, 0))
    assert (pending.deliver_all(), partial.exists()) == (0, False)


@pytest.mark.database
def test_many_are_stored_in_chunks(agent: Agent, folder: Path, monkeypatch):
    monkeypatch.setattr(pending, "CHUNK", 2)
    ids = {written(document(agent)) for _ in range(5)}
    assert pending.deliver_all() == 5
    assert set(Trace.objects.values_list("pk", flat=True)) == ids


def test_nothing_waits_where_there_is_no_folder(data_dir: Path):
    assert pending.deliver_all() == 0
