import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from rl.environments.code_exec import CodeExecEnv
from rl.environments.contract import Action
from rl.environments.search import SearchEnv
from rl.environments.tasks import CodeTask, CodeTest, SearchTask
from rl.environments.tasks.records import MOST_SECONDS

CODE = {"task_id": "t", "prompt": "Print 1.", "tests": [{"input": "", "output": "1"}]}
SEARCH = {"task_id": "t", "question": "Which?", "answer": "this", "documents": ["this one", "that one"]}


def of_code(**changes: Any) -> list[tuple[str, str]]:
    return [tuple(problem) for problem in CodeTask.problems({**CODE, **changes})]


def of_test(**changes: Any) -> list[tuple[str, str]]:
    return of_code(tests=[{"output": "1"}, {"output": "1", **changes}])


def of_search(**changes: Any) -> list[tuple[str, str]]:
    return [tuple(problem) for problem in SearchTask.problems({**SEARCH, **changes})]


def without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def test_what_is_complete_has_no_problems():
    optional = {
        "starter_code": "x = 1",
        "reference_solution": "print(1)",
        "ground_truth": [1],
        "metadata": {"yours": 1},
    }
    assert of_code(**optional) == of_search(metadata={"yours": 1}) == []
    assert of_test(description="why", timeout=0.5, input="3\n") == []


def test_null_is_nothing_where_a_field_is_optional():
    assert of_code(starter_code=None, reference_solution=None, ground_truth=None, metadata=None) == []
    assert of_test(description=None, timeout=None, input=None) == []
    assert of_search(documents=None, metadata=None) == []


@pytest.mark.parametrize("name", ["task_id", "prompt", "tests"])
def test_a_programming_task_needs(name: str):
    assert list(CodeTask.problems(without(CODE, name))) == [(f"field {name!r}", "is missing")]


@pytest.mark.parametrize("name", ["task_id", "question", "answer"])
def test_a_search_task_needs(name: str):
    assert list(SearchTask.problems(without(SEARCH, name))) == [(f"field {name!r}", "is missing")]


@pytest.mark.parametrize("row", [[1], "text", 3, None, True])
def test_a_line_is_one_object(row: Any):
    (code,), (search,) = CodeTask.problems(row), SearchTask.problems(row)
    assert code == search
    assert code.field == ""
    assert code.what.startswith("must be a JSON object, not ")


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (7, "must be text, not a number"),
        (None, "must be text, not null"),
        (False, "must be text, not false"),
        (["a"], "must be text, not a list"),
        (" \n", "must not be empty"),
    ],
)
def test_what_people_wrote_is_text_and_not_empty(value: Any, what: str):
    for name in ("task_id", "prompt"):
        assert of_code(**{name: value}) == [(f"field {name!r}", what)]
    for name in ("task_id", "question", "answer"):
        assert of_search(**{name: value}) == [(f"field {name!r}", what)]


@pytest.mark.parametrize("name", ["starter_code", "reference_solution"])
def test_programs_are_text(name: str):
    assert of_code(**{name: {"python": "1"}}) == [(f"field {name!r}", "must be text, not an object")]


def test_metadata_is_an_object():
    wrong = [("field 'metadata'", "must be an object, not text")]
    assert of_code(metadata="hard") == of_search(metadata="hard") == wrong


@pytest.mark.parametrize(
    ("tests", "what"),
    [
        ([], "must have at least one test"),
        ({"input": "1"}, "must be a list of tests, not an object"),
        (None, "is missing"),
        ([{"output": ""}, {"output": " \n"}], "has no test that expects output, so every program would pass"),
    ],
)
def test_there_is_something_to_pass(tests: Any, what: str):
    assert of_code(tests=tests) == [("field 'tests'", what)]


def test_without_tests_a_text_must_mark_success():
    assert of_code(tests=[], reference_solution="All passed.") == []
    assert list(CodeTask.problems(without({**CODE, "reference_solution": "OK"}, "tests"))) == []
    assert of_code(tests=[], reference_solution=" ") == [("field 'tests'", "must have at least one test")]


def test_the_language_is_python():
    assert of_code(language="python") == []
    assert of_code(language="rust") == [("field 'language'", "must be python, not 'rust'")]


def test_one_test_of_several_may_expect_nothing():
    assert of_test(output="") == []


def test_a_test_is_named_by_its_place():
    assert of_code(tests=[{"output": "1"}, {"input": "1"}, 5]) == [
        ("field 'output' of test 2", "is missing"),
        ("test 3", "must be a JSON object, not a number"),
    ]
    assert of_test(output=1) == [("field 'output' of test 2", "must be text, not a number")]
    assert of_test(input=1) == [("field 'input' of test 2", "must be text, not a number")]


@pytest.mark.parametrize(
    "seconds",
    [0, -1, True, "5", float("nan"), float("inf"), MOST_SECONDS + 1, pytest.param(10**400, id="no float is as large")],
)
def test_a_timeout_is_a_number_of_seconds_that_can_pass(seconds: Any):
    ((field, what),) = of_test(timeout=seconds)
    assert field == "field 'timeout' of test 2"
    assert what.startswith("must be a positive number of seconds, at most 600, not ")


def test_what_is_unknown_is_refused_with_what_is_known_and_where_it_may_go():
    ((field, what),) = of_code(test="x")
    assert field == "field 'test'"
    assert "known: task_id, prompt, starter_code, tests" in what
    assert "metadata" in what
    ((field, what),) = of_test(time_out=3)
    assert field == "field 'time_out' of test 2"
    assert "known: input, output, description, timeout" in what
    ((field, _),) = of_search(tests=[])
    assert field == "field 'tests'"


@pytest.mark.parametrize(
    ("documents", "what"),
    [
        ("one text", "must be a list of texts, not text"),
        ({"a": "b"}, "must be a list of texts, not an object"),
        (["one", 2], "must be a list of texts, but number 2 is a number"),
        ([["one"]], "must be a list of texts, but number 1 is a list"),
        (["one", None], "must be a list of texts, but number 2 is null"),
    ],
)
def test_documents_are_texts(documents: Any, what: str):
    assert of_search(documents=documents) == [("field 'documents'", what)]


def test_several_problems_of_one_line_are_all_found():
    assert [problem.field for problem in CodeTask.problems({"prompt": 1, "tests": [{}], "extra": 0})] == [
        "field 'extra'",
        "field 'task_id'",
        "field 'prompt'",
        "field 'output' of test 1",
    ]


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
