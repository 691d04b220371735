from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest

from rl.environments.code_exec import CodeExecEnv
from rl.environments.contract import Action
from rl.environments.search import SearchEnv
from rl.environments.tasks import CodeTask, CodeTest, SearchTask

CODE_ROW = {
    "task_id": "add",
    "prompt": "Print the sum.",
    "tests": [
        {"input": "1 2\n", "output": "3"},
        {"input": "2 2\n", "output": "4", "description": "equal", "timeout": 2},
    ],
    "starter_code": "a = 1",
    "reference_solution": "print(3)",
    "ground_truth": {"any": ["json"]},
    "metadata": {"difficulty": "easy", "yours": 1},
}
SEARCH_ROW = {
    "task_id": "door",
    "question": "What colour is the door?",
    "answer": "green",
    "documents": ["The door is green.", "The wall is white."],
    "metadata": {"topic": "door"},
}


@pytest.mark.parametrize(("kind", "row"), [(CodeTask, CODE_ROW), (SearchTask, SEARCH_ROW)])
def test_a_task_is_its_row_again(kind, row):
    task = kind.from_row(row)
    assert json.loads(json.dumps(task.as_mapping())) == row
    assert kind.from_row(task.as_mapping()) == task
    assert list(kind.problems(task.as_mapping())) == []


def test_what_a_row_leaves_out_or_has_as_null_is_empty():
    task = CodeTask.from_row(
        {"task_id": "t", "prompt": "p", "tests": [{"output": "1", "input": None}], "metadata": None}
    )
    assert task == CodeTask("t", "p", (CodeTest("1"),))
    assert task.as_mapping() == {"task_id": "t", "prompt": "p", "tests": [{"input": "", "output": "1"}]}
    search = SearchTask.from_row({"task_id": "t", "question": "q", "answer": "a", "documents": None})
    assert search == SearchTask("t", "q", "a")
    assert search.as_mapping() == {"task_id": "t", "question": "q", "answer": "a"}


def test_a_task_does_not_change():
    task = SearchTask("t", "q", "a")
    with pytest.raises(FrozenInstanceError):
        task.answer = "b"  # type: ignore[misc]
    task.as_mapping().setdefault("metadata", {})["difficulty"] = "hard"
    assert task.metadata == {}


def test_an_environment_takes_the_mapping_of_a_programming_task_and_shows_no_solution():
    messages = CodeExecEnv().reset(CodeTask.from_row(CODE_ROW).as_mapping())
    assert "Print the sum." in messages[-1]["content"]
    assert "a = 1" in messages[-1]["content"]
    assert not any("print(3)" in message["content"] for message in messages)


def test_an_environment_takes_the_mapping_of_a_search_task():
    env = SearchEnv()
    assert env.reset(SearchTask.from_row(SEARCH_ROW).as_mapping())[-1]["content"] == SEARCH_ROW["question"]
    assert env.step(Action("It is Green.")).info["success"]
