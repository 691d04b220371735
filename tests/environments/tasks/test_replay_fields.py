import json
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import BadFile
from rl.environments.replay import ReplayEnv
from rl.environments.tasks import ReplayTask, read_tasks
from rl.environments.tasks.replay_fields import is_schema, replay_problems

CODE = {"task_id": "sum", "prompt": "Print 3.", "tests": [{"output": "3"}]}
BY_PEOPLE = {
    "task_id": "t",
    "prompt": [{"role": "user", "content": "What is there?"}],
    "recorded": [{"tool_name": "look", "arguments": {"page": 1}, "result": "an elephant"}],
    "accepted": ["An elephant"],
}
BY_TESTS = {**BY_PEOPLE, "accepted": None, "environment": "code_exec", "task": CODE}


def of(row: dict[str, Any], **changes: Any) -> list[tuple[str, str]]:
    return [tuple(problem) for problem in replay_problems({**row, **changes})]


def test_what_is_complete_has_no_problems():
    call = {"tool_name": "look", "arguments": '{"page": 1}', "success": False, "error": "torn", "duration_ms": 1}
    schema = {"type": "function", "function": {"name": "look", "parameters": {}}}
    solution = [[{"tool_name": "look"}], "An elephant"]
    assert of(BY_PEOPLE, recorded=[call], tools=[schema], solution=solution, metadata={"yours": 1}) == []
    assert of(BY_TESTS, options={"test_timeout": 2.0}) == []


@pytest.mark.parametrize(
    ("changes", "field", "what"),
    [
        ({"prompt": "What?"}, "field 'prompt'", "must be a list of messages, not text"),
        ({"prompt": [{"role": "system", "content": "x"}]}, "field 'prompt'", "must have a message of the user"),
        ({"recorded": []}, "field 'recorded'", "must have at least one call"),
        ({"recorded": None}, "field 'recorded'", "must be a list of calls, not null"),
        ({"recorded": [{"arguments": {}}]}, "field 'tool_name' of call 1", "is missing"),
        (
            {"recorded": [{"tool_name": "x"}, {"tool_name": "y", "arguments": [1]}]},
            "field 'arguments' of call 2",
            "must be an object, or its JSON as text, not a list",
        ),
        (
            {"recorded": [{"tool_name": "x", "arguments": "{"}]},
            "field 'arguments' of call 1",
            "must be an object, or its JSON as text, not other text",
        ),
        (
            {"recorded": [{"tool_name": "x", "success": 1}]},
            "field 'success' of call 1",
            "must be true or false, not a number",
        ),
        (
            {"tools": [{"function": {"name": ""}}]},
            "field 'function' of tool 1",
            "must have a name and, as an object, parameters",
        ),
        ({"accepted": []}, "", "must have either an environment with its task, or accepted answers"),
        ({"accepted": [" "]}, "field 'accepted'", "must not have an empty answer"),
        (
            {"solution": [["look"], "x"]},
            "field 'solution'",
            "must have lists of calls before the answer, but number 1 is not one",
        ),
        ({"solution": []}, "field 'solution'", "must be a list that ends with the answer, a text"),
        (
            {"environment": "code_exec", "task": CODE},
            "",
            "must have either an environment with its task, or accepted answers",
        ),
        ({"answer": "x"}, "field 'answer'", None),
    ],
)
def test_what_is_wrong_is_told_with_its_field(changes, field, what):
    [(found, told)] = of(BY_PEOPLE, **changes)
    assert (found, told) == (field, what or told)


def test_a_role_must_be_one_that_chats_have():
    chat = [*BY_PEOPLE["prompt"], {"role": "critic", "content": "x"}]
    assert of(BY_PEOPLE, prompt=chat) == [
        ("field 'role' of message 2", "must be one of system, user, assistant, tool, not 'critic'")
    ]


@pytest.mark.parametrize("name", ["os:system", "replay", "tests.training.worlds:Patient"])
def test_a_file_cannot_name_code_of_its_own_choice(name):
    assert ("field 'environment'", f"must be one of code_exec, search, not {name!r}") in of(BY_TESTS, environment=name)


def test_the_task_and_the_options_are_checked_as_those_of_its_environment():
    assert of(BY_TESTS, task=None) == [("field 'task'", "is missing: what the environment judges answers by")]
    assert of(BY_TESTS, task={**CODE, "tests": [{}]}) == [("field 'task', field 'output' of test 1", "is missing")]
    [(field, told)] = of(BY_TESTS, options={"test_timout": 3})
    assert field == "field 'options'"
    assert "did you mean test_timeout?" in told


def test_a_file_is_read_and_its_mistakes_have_lines(tmp_path: Path):
    file = tmp_path / "train.jsonl"
    file.write_text(json.dumps(BY_PEOPLE) + "\n" + json.dumps({**BY_TESTS, "task_id": "u"}) + "\n")
    people, tests = read_tasks(file, ReplayTask)
    assert people.as_mapping() == BY_PEOPLE
    assert tests.as_mapping() == {name: value for name, value in {**BY_TESTS, "task_id": "u"}.items() if value}
    for task in (people, tests):
        assert ReplayEnv().reset(task.as_mapping()) == BY_PEOPLE["prompt"]
    file.write_text(json.dumps({**BY_PEOPLE, "recorded": [{"tool_name": 3}]}) + "\n")
    with pytest.raises(BadFile, match=r"line 1, field 'tool_name' of call 1\): must be text, not a number"):
        read_tasks(file, ReplayTask)


@pytest.mark.parametrize(
    "schema", [None, {}, {"function": {}}, {"function": {"name": "x"}}, {"function": {"name": 1, "parameters": {}}}]
)
def test_what_is_no_schema_of_a_tool(schema):
    assert is_schema(schema) is False
    assert is_schema({"type": "function", "function": {"name": "x", "parameters": {}}}) is True
