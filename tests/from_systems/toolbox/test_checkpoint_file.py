"""The end-to-end promise: checkpoint folders that overlap give each conversation once."""

import json
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rl.base.errors import BadFile
from rl.collect.traces.imported import ImportedTrace, Rejected
from rl.from_systems.toolbox.checkpoint_file import read
from rl.models import Agent, Trace
from tests.from_systems.toolbox.checkpoints.make_checkpoints import write_checkpoints

pytestmark = pytest.mark.process


AGENTS = ("filer", "librarian", "writer")


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """Three agents with three checkpoints each, which tell turns 0-3, 2-5 and 0-6: seven conversations each."""
    folder = tmp_path / "data" / "Agents" / "checkpoint"
    spans = ((0, 4), (2, 6), (0, 7))
    write_checkpoints(
        folder,
        *[(f"{agent}/{place}.pkl", agent, *span, 2 + place) for agent in AGENTS for place, span in enumerate(spans)],
    )
    return folder


def command(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("import_traces", "--format", "toolbox_checkpoint", *arguments, "--json", stdout=out, stderr=StringIO())
    return json.loads(out.getvalue())


@pytest.mark.database
@pytest.mark.django_db
def test_three_agents_with_overlapping_files_give_each_conversation_once(checkpoints: Path):
    document = command(str(checkpoints))
    assert (document["traces"]["read"], document["traces"]["imported"]) == (21, 21)
    assert sorted(Agent.objects.values_list("name", flat=True)) == list(AGENTS)
    for agent in AGENTS:
        questions = [trace.question for trace in Trace.objects.filter(agent__name=agent).order_by("occurred_at")]
        assert questions == [f"{agent}: question {number}" for number in range(7)]


@pytest.mark.django_db
def test_a_second_import_changes_nothing_and_a_newer_checkpoint_adds_what_is_new(checkpoints: Path):
    data = checkpoints.parent.parent
    for agent in AGENTS[1:]:
        shutil.rmtree(checkpoints / agent)
    command(str(data))
    again = command(str(data))
    assert (again["traces"]["unchanged"], again["traces"]["imported"], again["traces"]["updated"]) == (7, 0, 0)
    write_checkpoints(checkpoints, ("filer/new.pkl", "filer", 5, 9, 4))
    assert command(str(data))["traces"]["imported"] == 2


@pytest.mark.database
@pytest.mark.django_db
def test_what_is_stored_is_all_that_the_checkpoint_knows(checkpoints: Path):
    command(str(checkpoints / "writer"))
    trace = Trace.objects.get(prompt__0__content="writer: question 1")
    assert (trace.response, trace.session_id, trace.source) == ("writer: answer 1", "s1", "toolbox_checkpoint")
    assert [call["tool_name"] for call in trace.tool_calls] == ["search", "fetch"]
    assert [(event["task_id"], event["status"]) for event in trace.tasks] == [("t1", "created"), ("t1", "failed")]
    assert (trace.tokens_in, trace.llm_calls, trace.cost, trace.duration_ms) == (100, 2, 0.5, 120_000)
    assert trace.details["estimated"] == ["tokens_in", "tokens_out", "cost", "llm_calls"]
    assert trace.occurred_at.isoformat() == "2026-01-05T09:10:00+00:00"
    last = Trace.objects.get(prompt__0__content="writer: question 6")
    assert [step["step_type"] for step in last.reasoning_steps] == ["delegation", "final_result"]


@pytest.mark.django_db
def test_a_damaged_checkpoint_is_told_and_the_others_are_stored(checkpoints: Path):
    (checkpoints / "filer" / "cut.pkl").write_bytes((checkpoints / "filer" / "2.pkl").read_bytes()[:-20])
    document = command(str(checkpoints / "filer"))
    assert document["traces"]["imported"] == 7
    (skipped,) = document["traces"]["skipped"]
    assert "byte " in skipped["reason"]
    assert skipped["examples"] == ["filer/cut.pkl"]


@pytest.mark.django_db
def test_a_dry_run_writes_nothing(checkpoints: Path):
    assert command(str(checkpoints / "filer"), "--dry-run")["traces"]["imported"] == 7
    assert (Agent.objects.count(), Trace.objects.count()) == (0, 0)


@pytest.mark.database
@pytest.mark.django_db
def test_one_file_belongs_to_the_agent_that_the_person_names(checkpoints: Path):
    file = str(checkpoints / "filer" / "0.pkl")
    with pytest.raises(CommandError, match="--agent"):
        command(file)
    assert command(file, "--agent", "archive")["traces"]["imported"] == 4
    assert Trace.objects.filter(agent__name="archive").count() == 4


def test_the_folder_of_one_agent_names_it(checkpoints: Path):
    assert {one.agent for one in read(checkpoints / "filer") if isinstance(one, ImportedTrace)} == {"filer"}


def test_a_folder_whose_name_no_agent_can_have_is_told(checkpoints: Path):
    (checkpoints / "filer").rename(checkpoints / "my filer")
    found = list(read(checkpoints))
    assert [one.where for one in found if isinstance(one, Rejected)] == ["my filer"]
    assert {one.agent for one in found if isinstance(one, ImportedTrace)} == {"librarian", "writer"}
    assert [type(one) for one in read(checkpoints / "my filer")] == [Rejected]


def test_text_that_no_database_takes_is_left_to_the_store_to_refuse(tmp_path: Path):
    """Nothing breaks on the way: the process that reads it hands half a surrogate pair on."""
    write_checkpoints(tmp_path / "c", ("a.pkl", "caf\ud83d", 0, 1, 4))
    (found,) = read(tmp_path / "c" / "a.pkl")
    assert isinstance(found, ImportedTrace)
    assert found.response == "caf\ud83d: answer 0"


def test_what_holds_no_checkpoint_is_an_error(tmp_path: Path):
    with pytest.raises(BadFile, match="holds no checkpoints"):
        list(read(tmp_path))
    (tmp_path / "a.pkl").write_bytes(b"N.")
    with pytest.raises(BadFile, match="not a checkpoint of an agent"):
        list(read(tmp_path / "a.pkl"))
    with pytest.raises(BadFile, match="cannot be read"):
        list(read(tmp_path / "b.pkl"))
