from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.base.records import ToolCall
from rl.collect.capture.execution_trace import ExecutionTrace
from rl.from_systems.toolbox.checkpoints.overlap import (
    CheckpointContents,
    SessionConversations,
    longest_beginning,
    merge_checkpoints,
)

BEGIN = datetime(2026, 1, 5, 9, tzinfo=UTC)


def trace(number: int, answer: str = "1", tools: int = 0, timestamp: str | None = None) -> ExecutionTrace:
    when = (BEGIN + timedelta(minutes=number)).isoformat() if timestamp is None else timestamp
    return ExecutionTrace(
        f"t{number}",
        timestamp=when,
        user_query=f"q{number}",
        final_response=answer,
        tool_calls=[ToolCall("search")] * tools,
    )


def task(name: str, status: str = "completed", minute: int | None = None) -> dict[str, Any]:
    created = "" if minute is None else (BEGIN + timedelta(minutes=minute)).isoformat()
    return {
        "task_id": name,
        "status": status,
        "type": "t",
        "description": "d",
        "result": "r",
        "error": "e",
        "created_at": created,
        "ended_at": "",
    }


def step(content: str) -> dict[str, Any]:
    return {"step_type": "delegation", "content": content, "confidence": None}


def checkpoint(
    hour: int, *traces: ExecutionTrace, totals: dict[str, float] | None = None, **about: Any
) -> CheckpointContents:
    told = {"totals": totals or {}, "tasks": [], "reasoning_steps": [], "system_prompt": "", "tools": [], **about}
    return CheckpointContents(f"{hour}.pkl", BEGIN + timedelta(hours=hour), told, traces)


@pytest.mark.parametrize("order", [1, -1], ids=["oldest first", "newest first"])
def test_each_conversation_is_there_once_in_the_newest_words(order: int):
    older = checkpoint(1, trace(0, "draft"), trace(1))
    newer = checkpoint(2, trace(0, "final"), trace(2))
    found = merge_checkpoints([older, newer][::order])
    assert [(one.trace.trace_id, one.trace.final_response, one.filename) for one in found] == [
        ("t0", "final", "2.pkl"),
        ("t1", "1", "1.pkl"),
        ("t2", "1", "2.pkl"),
    ]


@pytest.mark.parametrize("order", [1, -1], ids=["oldest first", "newest first"])
def test_tool_calls_that_a_newer_history_has_lost_stay(order: int):
    found = merge_checkpoints(
        [checkpoint(1, trace(0, "draft", tools=3)), checkpoint(2, trace(0, "final", tools=1))][::order]
    )
    assert (found[0].trace.final_response, len(found[0].trace.tool_calls)) == ("final", 3)


def test_the_newest_totals_are_spread_so_that_they_add_up():
    older = checkpoint(1, trace(0), totals={"total_tokens_in": 1000, "total_cost": 9.0})
    newer = checkpoint(2, trace(1), trace(2), totals={"total_tokens_in": 101, "total_tokens_out": 2, "total_cost": 3.0})
    traces = [one.trace for one in merge_checkpoints([newer, older])]
    assert [each.total_tokens_in for each in traces] == [34, 34, 33]
    assert [each.total_tokens_out for each in traces] == [1, 1, 0]
    assert [each.total_cost for each in traces] == [1.0, 1.0, 1.0]


def test_a_task_belongs_to_the_conversation_during_which_it_was_made():
    (first, second) = merge_checkpoints(
        [checkpoint(1, trace(0), trace(10), tasks=[task("a", minute=1), task("b", "failed", minute=11)])]
    )
    assert [each["task_id"] for each in first.trace.tasks_completed] == ["a"]
    assert [(each["task_id"], each["error"]) for each in second.trace.tasks_failed] == [("b", "e")]
    assert len(first.trace.tasks_created) == len(second.trace.tasks_created) == 1


@pytest.mark.parametrize("order", [1, -1], ids=["oldest first", "newest first"])
def test_a_task_without_a_time_belongs_where_it_was_first_seen_and_has_its_newest_status(order: int):
    older = checkpoint(1, trace(0), tasks=[task("a", "running")], reasoning_steps=[step("x")])
    newer = checkpoint(2, trace(0), trace(1), tasks=[task("a"), task("b")], reasoning_steps=[step("x"), step("y")])
    first, second = (one.trace for one in merge_checkpoints([older, newer][::order]))
    assert [each["task_id"] for each in first.tasks_completed] == ["a"]
    assert [each["task_id"] for each in second.tasks_completed] == ["b"]
    assert [each.content for each in first.reasoning_steps] == ["x"]
    assert [each.content for each in second.reasoning_steps] == ["y"]


def test_a_conversation_without_a_time_has_that_of_the_first_checkpoint_that_holds_it():
    found = merge_checkpoints(
        [checkpoint(1, trace(1), trace(0, timestamp="")), checkpoint(2, trace(0, timestamp=""), tasks=[task("a")])]
    )
    assert [(one.trace.user_query, one.trace.timestamp) for one in found] == [
        ("q1", (BEGIN + timedelta(minutes=1)).isoformat()),
        ("q0", (BEGIN + timedelta(hours=1)).isoformat()),
    ]
    assert len(found[1].trace.tasks_completed) == 1


def test_nothing_gives_nothing():
    assert merge_checkpoints([]) == []
    assert merge_checkpoints([checkpoint(1, tasks=[task("a")], totals={"total_tokens_in": 5})]) == []


words = st.lists(st.tuples(st.sampled_from("ab"), st.just("1")), max_size=12)


def common(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


@given(words, words)
def test_the_longest_beginning_is_that_of_trying_each(part: list[tuple[str, str]], whole: list[tuple[str, str]]):
    match = longest_beginning(part, whole)
    assert match.length == max((common(part, whole[at:]) for at in range(len(whole))), default=0)
    assert part[: match.length] == whole[match.start : match.start + match.length]


def window(said: str) -> list[ExecutionTrace]:
    return [ExecutionTrace("", session_id="s", user_query=query, final_response="1") for query in said]


@given(st.text("abcdefgh", min_size=1, max_size=20), st.integers(1, 6), st.integers(1, 6))
def test_windows_that_slide_over_a_history_give_each_of_its_conversations_once(said: str, size: int, step: int):
    """Where each shares a conversation with the one before that occurs only once."""
    unique = "".join(dict.fromkeys(said))
    session, ids = SessionConversations(), {}
    for start in range(0, len(unique), min(step, size)):
        part = window(unique[start : start + size])
        session.identify(part)
        ids |= {trace.trace_id: trace.user_query for trace in part}
    assert sorted(ids.values()) == sorted(unique)
