"""What an agent thought before it answered is in the rows of one that thinks, and in no others."""

from pathlib import Path
from typing import Any

import pytest

from rl.collect.feedback.write import compare, correct
from rl.dataset_builder import DataOptions, freeze
from rl.models import Agent, Trace
from tests.conftest import make_trace
from tests.dataset_builder.exporting.exports import exported
from tests.dataset_builder.ratings import all_rows, rate

ONE = DataOptions(min_samples=1, val_split=0)


@pytest.fixture
def thinking(agent: Agent) -> Agent:
    agent.thinks = True
    agent.save()
    return agent


def thought(text: str, kind: str = "reasoning") -> dict[str, Any]:
    return {"content": text, "step_type": kind}


def answered(agent: Agent, question: str, response: str, *thoughts: dict[str, Any], **more: Any) -> Trace:
    return make_trace(agent, question, response, reasoning_steps=list(thoughts), **more)


def rows_of(agent: Agent, method: str = "kto") -> list[dict[str, Any]]:
    return all_rows(freeze(agent, ONE, method=method))


@pytest.mark.parametrize(
    ("method", "column"), [("kto", "completion"), ("mpo", "chosen"), ("sft", "chosen"), ("dpo", "chosen")]
)
def test_rows_of_every_kind_keep_what_was_thought(thinking: Agent, data_dir, method: str, column: str):
    rate(answered(thinking, "Where?", "Here.", thought("It is near."), thought("a remark", "message")), 1)
    rate(answered(thinking, "Where?", "Nowhere.", thought("Who knows.")), 0)
    answers = {row[column][-1]["content"]: row[column] for row in rows_of(thinking, method) if row[column]}
    assert answers["Here."] == [{"role": "assistant", "content": "Here.", "reasoning_content": "It is near."}]


def test_rows_of_an_agent_that_does_not_think_are_without(agent: Agent, data_dir):
    rate(answered(agent, "Where?", "Here.", thought("It is near.")), 1)
    messages = [
        {"role": "user", "content": "When?"},
        {"role": "assistant", "content": "Now.", "reasoning_content": "At once."},
    ]
    rate(answered(agent, "When?", "Now.", thought("At once."), details={"messages": messages}), 0)
    assert "reasoning_content" not in str(rows_of(agent))


def test_the_same_words_after_other_thoughts_are_the_same_answer(thinking: Agent, data_dir):
    rate(answered(thinking, "Where?", "Here.", thought("It is near.")), 1)
    rate(answered(thinking, "Where?", "Here.", thought("It is not far.")), 1)
    rate(answered(thinking, "Where?", "Nowhere."), 0)
    assert len(rows_of(thinking, "dpo")) == 1


def test_nobody_thought_what_somebody_else_wrote(thinking: Agent, data_dir, tmp_path: Path):
    correct(answered(thinking, "Where?", "There.", thought("Far.")), text="Here.", rater="alice", source="test")
    [row] = rows_of(thinking, "dpo")
    assert "reasoning_content" not in str(row)
    [sent] = exported(thinking, "trl", tmp_path)
    assert ("Here." in str(sent), "reasoning_content" in str(sent)) == (True, False)


def test_both_answers_of_a_pick_keep_theirs(thinking: Agent, data_dir):
    left, right = (answered(thinking, "Where?", text, thought(f"{text}?")) for text in ("Here.", "There."))
    compare(left, right, choice="right", rater="alice", source="test")
    [row] = rows_of(thinking, "dpo")
    assert [row[name][-1]["reasoning_content"] for name in ("chosen", "rejected")] == ["There.?", "Here.?"]


CALL = {"tool_name": "search", "arguments": {"query": "Bonn"}, "result": "On the Rhine.", "success": True}
FUNCTION = {"name": "search", "arguments": '{"query": "Bonn"}'}
MESSAGES = [
    {"role": "user", "content": "Where?"},
    {
        "role": "assistant",
        "content": "",
        "reasoning": "I must look.",
        "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "On the Rhine."},
    {"role": "assistant", "content": "There.", "reasoning_content": "Found."},
]


@pytest.mark.parametrize("details", [{}, {"messages": MESSAGES}], ids=["by the columns", "by the messages"])
def test_each_turn_of_a_run_keeps_its_own(thinking: Agent, data_dir, details: dict[str, Any]):
    thoughts = [thought("I must look."), thought("Found.")]
    rate(answered(thinking, "Where?", "There.", *thoughts, tool_calls=[CALL], details=details), 1)
    rate(answered(thinking, "When?", "Never."), 0)
    turns = next(row["completion"] for row in rows_of(thinking) if row["label"])
    assert [turn.get("reasoning_content") for turn in turns] == ["I must look.", None, "Found."]


def test_of_thoughts_that_belong_to_no_turn_none_is_taken_for_that_of_another(thinking: Agent, data_dir):
    rate(answered(thinking, "Where?", "There.", thought("Which turn?"), tool_calls=[CALL]), 1)
    rate(answered(thinking, "When?", "Never."), 0)
    assert "reasoning_content" not in str(rows_of(thinking))
