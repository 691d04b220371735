"""Checkpoints of version 2.0, from real pickles of the class that this process has not."""

from pathlib import Path
from typing import Any

import pytest

from rl.collect.ingest.importing import import_files
from rl.collect.traces.imported import ImportedTrace, Rejected
from rl.from_systems.toolbox.checkpoint_file import read
from rl.from_systems.toolbox.checkpoints.agents_folder import AgentsFolder
from rl.models import Agent, Trace
from tests.from_systems.toolbox.checkpoints.make_version_2 import SYSTEM, checkpoint, run, write_version_2

pytestmark = pytest.mark.process


NAMES = ("agent_checkpoint_20260301_140500.pkl", "agent_checkpoint_20260302_140500.pkl", "final_checkpoint.pkl")


@pytest.fixture
def coder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "Agents" / "checkpoint" / "coder"


def read_one(tmp_path: Path, coder: Path, *messages: dict[str, Any], **changes: Any) -> list[ImportedTrace]:
    write_version_2(tmp_path, checkpoint(coder / NAMES[0], *messages, **changes))
    records = list(read(coder))
    assert not [record for record in records if isinstance(record, Rejected)]
    return [record for record in records if isinstance(record, ImportedTrace)]


def questions(coder: Path) -> list[str]:
    return [record.prompt[-1]["content"] for record in read(coder) if isinstance(record, ImportedTrace)]


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5, None])
def test_a_run_is_its_question_and_final_answer_and_its_summary_is_a_thought(tmp_path: Path, coder: Path, protocol):
    (record,) = read_one(tmp_path, coder, *run("Sort it", "sorted(x)"), protocol=protocol)
    assert record.prompt == ({"role": "system", "content": SYSTEM}, {"role": "user", "content": "Sort it"})
    assert (record.response, record.session_id, record.agent) == ("sorted(x)", "default", "coder")
    assert [(step.step_type, step.content) for step in record.reasoning_steps] == [
        ("run_summary", "\N{BAR CHART} RUN SUMMARY [r1]: did Sort it")
    ]
    assert record.occurred_at is not None
    assert record.occurred_at.isoformat() == "2026-03-01T14:05:00+00:00"
    assert (record.tokens_in, record.tokens_out, record.cost, record.llm_calls) == (1000, 100, 2.0, 4)
    search, fetch = record.details["tools"]
    assert search["function"]["parameters"] == {}
    assert fetch == {"type": "function", "function": {"name": "fetch", "description": "Looks it up."}}


@pytest.mark.parametrize("role", ["assistant", "system"])
@pytest.mark.parametrize("begin", ["", "\u2705 ", "\N{WRENCH}\ufe0f "])
def test_a_summary_is_never_the_answer_whoever_says_it(tmp_path: Path, coder: Path, role: str, begin: str):
    summary = {"role": role, "content": f"{begin}RUN SUMMARY [r1]: done"}
    ask, answer = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
    (record,) = read_one(tmp_path, coder, ask, summary, answer)
    assert (record.response, record.reasoning_steps[0].step_type) == ("a", "run_summary")


def test_a_run_that_ends_with_its_summary_has_no_answer(tmp_path: Path, coder: Path):
    assert read_one(tmp_path, coder, *run("a", "1"), *run("b", "2")[:-1])[-1].response == "1"


def test_milestones_are_no_answers_and_tools_without_a_name_say_whether_they_failed(tmp_path: Path, coder: Path):
    between = (
        {"role": "system", "content": "--- FOKUS-WECHSEL: tests ---"},
        {"role": "assistant", "content": "--- FOKUS-WECHSEL: docs ---"},
        {"role": "tool", "tool_call_id": "c1", "content": "Error: not found"},
        {"role": "tool", "tool_call_id": "c2", "content": "ok"},
    )
    (record,) = read_one(tmp_path, coder, *run("a", "1", *between))
    assert record.response == "1"
    assert [(call.tool_name, call.success, call.error) for call in record.tool_calls] == [
        ("unknown", False, "Error: not found"),
        ("unknown", True, ""),
    ]


def test_two_questions_before_one_answer_are_one_prompt(tmp_path: Path, coder: Path):
    (record,) = read_one(tmp_path, coder, {"role": "user", "content": "And b?"}, *run("Or c?", "Yes."))
    assert record.prompt[-1]["content"] == "And b?\n\nOr c?"


def test_without_a_system_prompt_the_question_stands_alone(tmp_path: Path, coder: Path):
    (record,) = read_one(tmp_path, coder, *run("a", "1"), system="")
    assert [message["role"] for message in record.prompt] == ["user"]


def test_a_window_that_is_full_says_nothing_about_cost(tmp_path: Path, coder: Path):
    """The totals were spent on conversations that nobody has any more, too."""
    (record,) = read_one(tmp_path, coder, *run("a", "1"), most=3)
    assert (record.tokens_in, record.cost, "estimated" in record.details) == (None, None, False)


def windows(tmp_path: Path, coder: Path, *spans: list[dict[str, Any]]) -> None:
    at = ("2026-03-01T14:05:00", "2026-03-02T14:05:00", "2026-03-03T14:05:00")
    write_version_2(
        tmp_path,
        *[checkpoint(coder / name, *span, timestamp=when) for name, span, when in zip(NAMES, spans, at, strict=False)],
    )


def test_windows_that_overlap_give_each_conversation_once(tmp_path: Path, coder: Path):
    a, b, c, d = (run(name, name * 2) for name in "abcd")
    windows(tmp_path, coder, a + b + c, b[1:] + c + d, c + d)
    assert questions(coder) == ["a", "b", "c", "d"]
    first = next(record for record in read(coder) if isinstance(record, ImportedTrace))
    assert first.occurred_at is not None
    assert first.occurred_at.day == 1


def test_the_same_question_with_the_same_answer_again_is_another_conversation(tmp_path: Path, coder: Path):
    a, b = run("ping", "pong"), run("x", "y")
    windows(tmp_path, coder, a + b + a, b + a + a)
    assert questions(coder) == ["ping", "x", "ping", "ping"]


def test_a_history_that_was_set_back_continues_from_there(tmp_path: Path, coder: Path):
    a, b, c, d = (run(name, name * 2) for name in "abcd")
    windows(tmp_path, coder, a + b + c, a + b + d)
    assert sorted(questions(coder)) == ["a", "b", "c", "d"]


def test_a_window_that_begins_after_the_first_of_two_questions_is_recognised(tmp_path: Path, coder: Path):
    two, more = [{"role": "user", "content": "Hello"}, *run("a", "1")], run("b", "2")
    windows(tmp_path, coder, two + more, two[1:] + more)
    assert questions(coder) == ["Hello\n\na", "b"]


def test_the_time_in_the_name_counts_more_than_the_field_and_the_file(tmp_path: Path, coder: Path):
    write_version_2(tmp_path, checkpoint(coder / NAMES[0], *run("a", "1"), timestamp="2020-01-01T00:00:00"))
    (record,) = read(coder)
    assert isinstance(record, ImportedTrace)
    assert record.occurred_at is not None
    assert record.occurred_at.isoformat() == "2026-03-01T14:05:00+00:00"


def test_files_beside_the_checkpoints_are_skipped_without_a_word(tmp_path: Path, coder: Path):
    write_version_2(tmp_path, checkpoint(coder / NAMES[2], *run("a", "1")))
    folder = AgentsFolder(tmp_path / "data")
    assert (coder / "final_checkpoint.meta.json").exists()
    assert len(folder.find_conversations("coder")) == 1
    assert folder.rejected == []


@pytest.mark.database
@pytest.mark.django_db
def test_a_second_import_changes_nothing_though_old_checkpoints_are_gone(tmp_path: Path, coder: Path):
    a, b, c = (run(name, name * 2) for name in "abc")
    windows(tmp_path, coder, a + b, b + c)
    first = import_files("toolbox_checkpoint", [tmp_path / "data"], agent=None)
    assert (first.traces.imported, Agent.objects.get().name) == (3, "coder")
    (coder / NAMES[0]).unlink()
    again = import_files("toolbox_checkpoint", [tmp_path / "data"], agent=None)
    assert (again.traces.imported, again.traces.skipped) == (0, {})
    assert Trace.objects.count() == 3
