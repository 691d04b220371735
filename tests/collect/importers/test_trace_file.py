import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import BadFile
from rl.collect.importers.trace_file import read
from rl.collect.ingest.importing import import_files
from rl.collect.traces.imported import ImportedTrace, Rejected
from rl.models import Agent, Feedback, Trace

SHELL = {
    "tool_name": "shell",
    "arguments": {"cmd": "ls"},
    "result": "a b",
    "success": True,
    "duration_ms": 12.5,
    "error": None,
    "timestamp": "2026-01-05T09:00:01",
}
FETCH = {
    "tool_name": "fetch",
    "arguments": {},
    "result": "",
    "success": False,
    "duration_ms": 3.0,
    "error": "timed out",
    "timestamp": "",
}
STEP = {"step_type": "internal_reasoning", "content": "look", "confidence": 0.5, "insights": ["i"], "issues": []}
TRACE: dict[str, Any] = {
    "trace_id": "4f2a9c",
    "session_id": "s1",
    "timestamp": "2026-01-05T09:00:00",
    "user_query": "List the files",
    "tool_calls": [SHELL, FETCH],
    "reasoning_steps": [STEP],
    "tasks_created": [{"task_id": "t1", "type": "ToolTask", "description": "ls", "timestamp": "2026-01-05T09:00:00"}],
    "tasks_completed": [{"task_id": "t1", "type": "ToolTask", "description": "ls", "timestamp": "", "result": "ok"}],
    "tasks_failed": [{"error": "boom", "type": "execution_error"}],
    "final_response": "a and b",
    "total_tokens_in": 100,
    "total_tokens_out": 20,
    "total_cost": 0.01,
    "execution_duration_ms": 1234.6,
    "llm_calls_count": 2,
    "label": True,
    "reward_score": 0.75,
    "manual_review": True,
    "review_notes": "fine",
}


def written(path: Path, **changes: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**TRACE, **changes}))
    return path


def only(path: Path) -> ImportedTrace:
    (found,) = read(path)
    assert isinstance(found, ImportedTrace)
    return found


def test_a_trace_keeps_all_that_its_file_says(tmp_path: Path):
    found = only(written(tmp_path / "4f2a9c.json"))
    assert (found.external_id, found.session_id, found.agent) == ("4f2a9c", "s1", "")
    assert found.prompt == ({"role": "user", "content": "List the files"},)
    assert found.response == "a and b"
    assert found.occurred_at == datetime(2026, 1, 5, 9, tzinfo=UTC)
    shell, fetch = found.tool_calls
    assert (shell.tool_name, shell.arguments, shell.result, shell.success, shell.duration_ms) == (
        "shell",
        {"cmd": "ls"},
        "a b",
        True,
        12.5,
    )
    assert (shell.error, fetch.error, fetch.success) == ("", "timed out", False)
    (step,) = found.reasoning_steps
    assert (step.content, step.step_type, step.confidence, step.insights) == ("look", "internal_reasoning", 0.5, ("i",))
    assert [(task.task_id, task.status, task.result, task.error) for task in found.tasks] == [
        ("t1", "created", None, ""),
        ("t1", "completed", "ok", ""),
        ("", "failed", None, "boom"),
    ]
    assert (found.tokens_in, found.tokens_out, found.llm_calls, found.cost, found.duration_ms) == (
        100,
        20,
        2,
        0.01,
        1235,
    )
    assert found.details == {"reward_score": 0.75}


@pytest.mark.parametrize(
    ("label", "manual", "rater", "value"),
    [
        (True, True, "user:collector", 1.0),
        (False, True, "user:collector", 0.0),
        (False, False, "system:collector", 0.0),
    ],
)
def test_a_label_is_a_thumb_of_a_person_or_of_a_program(
    tmp_path: Path, label: bool, manual: bool, rater: str, value: float
):
    (said,) = only(written(tmp_path / "a.json", label=label, manual_review=manual)).feedback
    assert (said.kind, said.scale, said.rater, said.value, said.notes) == ("rating", "thumb", rater, value, "fine")


def test_what_was_not_counted_is_not_known(tmp_path: Path):
    names = ("total_tokens_in", "total_tokens_out", "total_cost", "execution_duration_ms", "llm_calls_count")
    found = only(written(tmp_path / "a.json", label=None, reward_score=None, **dict.fromkeys(names, 0)))
    assert (found.tokens_in, found.tokens_out, found.cost, found.duration_ms, found.llm_calls) == (None,) * 5
    assert (found.feedback, found.details) == ((), {})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"user_query": " "}, "user_query is missing"),
        ({"trace_id": ""}, "trace_id is missing"),
        ({"trace_id": "x" * 201}, "trace_id is longer"),
        ({"label": "good"}, "label must be true, false or null"),
        ({"tool_calls": "none"}, "tool_calls must be a list"),
        ({"tool_calls": [{"tool_name": "a"}, {}]}, "tool_calls 2: tool_name is missing"),
        ({"tasks_failed": [1]}, "tasks_failed 1: is not an object"),
        ({"timestamp": "yesterday"}, "timestamp must be a time"),
        ({"reward_score": "high"}, "reward_score must be a number"),
    ],
)
def test_a_damaged_trace_is_refused_with_the_name_of_the_field(tmp_path: Path, changes: dict[str, Any], reason: str):
    with pytest.raises(BadFile, match=reason):
        list(read(written(tmp_path / "a.json", **changes)))


def test_a_folder_is_read_in_the_order_of_its_dates_and_a_damaged_file_is_rejected(tmp_path: Path):
    folder = tmp_path / "rl_traces"
    written(folder / "2026-01-06" / "b.json", trace_id="b")
    written(folder / "2026-01-05" / "c.json", trace_id="c")
    (folder / "2026-01-05" / "cut.json").write_text('{"trace_id": "x", ')
    (folder / "2026-01-05" / "list.json").write_text("[1]")
    (folder / "2026-01-05" / ".hidden.json").write_text("{}")
    (folder / "2026-01-07").symlink_to(folder / "2026-01-05")
    (folder / "2026-01-06" / "link.json").symlink_to(folder / "2026-01-05" / "c.json")
    found = list(read(folder))
    assert [one.external_id for one in found if isinstance(one, ImportedTrace)] == ["c", "b"]
    assert [one.where for one in found] == [f"2026-01-0{name}.json" for name in ("5/c", "5/cut", "5/list", "6/b")]
    assert all(isinstance(one, Rejected) for one in found[1:3])


def test_a_folder_without_traces_is_an_error(tmp_path: Path):
    with pytest.raises(BadFile, match="holds no trace files"):
        list(read(tmp_path))


@pytest.mark.django_db
def test_they_are_stored_with_their_label_and_a_second_time_changes_nothing(tmp_path: Path):
    written(tmp_path / "2026-01-05" / "a.json", trace_id="a")
    written(tmp_path / "2026-01-05" / "b.json", trace_id="b", label=None)
    agent = Agent(name="filer")
    first = import_files("trace_file", [tmp_path], agent=agent)
    assert (first.traces.imported, first.feedback.imported) == (2, 1)
    again = import_files("trace_file", [tmp_path], agent=Agent.objects.get())
    assert (again.traces.unchanged, again.traces.imported, again.traces.updated) == (2, 0, 0)
    trace = Trace.objects.get(external_id="a")
    assert trace.tool_calls[1]["error"] == "timed out"
    assert (trace.source, trace.llm_calls, trace.tasks[1]["status"]) == ("trace_file", 2, "completed")
    assert Feedback.objects.get().rater == "user:collector"
