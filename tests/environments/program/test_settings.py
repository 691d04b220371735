"""What the environment of programs is made from, and what it is refused for."""

from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import BadFile, UsageError
from rl.environments.config_file import read_agent_file
from rl.environments.contract import Action
from rl.environments.settings import EnvironmentSettings
from rl.environments.tasks import check_tasks
from rl.environments.tasks.records import PromptTask

COMMAND = {"command": ["true"]}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "program needs a command: a list with the program and its arguments"),
        ({"command": "true"}, "command must be a list of texts"),
        ({"command": [1]}, "command must be a list of texts"),
        (COMMAND | {"reward": "check"}, "the reward check needs a check"),
        (COMMAND | {"reward": "exitcode"}, "reward must be one of exit_code, check, score, answer, code_execution"),
        (COMMAND | {"reward": "feedback"}, "reward must be one of"),
        (COMMAND | {"reward": "no.such.Reward"}, "the reward own=no.such.Reward cannot be loaded"),
        (COMMAND | {"time_limit": 0.0}, "time_limit must be a number of seconds"),
        (COMMAND | {"system_prompt": "?"}, "program has no setting system_prompt"),
        (COMMAND | {"env": {"LEVEL": 3}}, "env must be names with texts"),
        (COMMAND | {"env": {"API_KEY": "abc"}}, "env must not hold API_KEY: env_from takes it"),
        (COMMAND | {"env_from": ["sk-abc"]}, "env_from must name environment variables, not hold values"),
        (COMMAND | {"max_turns": 0}, "max_turns must be 1 or more"),
    ],
)
def test_what_makes_no_program_is_refused(options: dict[str, Any], problem: str):
    with pytest.raises(UsageError) as refusal:
        EnvironmentSettings("program", options).check()
    assert problem in str(refusal.value)
    assert "abc" not in str(refusal.value), "what stands there may be a secret"


def test_the_key_of_an_episode_may_have_another_name():
    EnvironmentSettings("program", COMMAND | {"env": {"MY_API_KEY": "{api_key}"}}).check()


def test_tools_are_the_programs_own():
    with pytest.raises(UsageError, match="the tools of program come with its tasks: leave out tools"):
        EnvironmentSettings("program", COMMAND, {"search": {}}).check()


def test_it_does_not_move_step_by_step():
    environment = EnvironmentSettings("program", COMMAND).build()
    assert environment.reset({"task_id": "t", "prompt": "What?"}) == [{"role": "user", "content": "What?"}]
    with pytest.raises(UsageError, match="goes by itself"):
        environment.step(Action("no"))


def test_a_file_names_folders_from_where_it_lies(tmp_path: Path):
    path = tmp_path / "own.yaml"
    path.write_text("env: {type: program, command: [python3, '{folder}/agent.py']}")
    assert read_agent_file(path).environment.options["folder"] == str(tmp_path)
    path.write_text("env:\n  type: program\n  command: [python3]\n  folder: agents\n")
    assert read_agent_file(path).environment.options["folder"] == str(tmp_path / "agents")
    path.write_text("env:\n  type: program\n  comand: [python3]\n")
    with pytest.raises(BadFile, match=r"own.yaml \(line 3\): unknown key 'env.comand' \(did you mean command\?\)"):
        read_agent_file(path)


def test_a_task_needs_a_prompt_and_may_have_anything_else(tmp_path: Path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"task_id": "a", "prompt": "What?", "level": 3}\n{"task_id": "b"}\n[]\n')
    assert [str(problem).removeprefix(f"{path} ") for problem in check_tasks(path, PromptTask)] == [
        "(line 2, field 'prompt'): is missing",
        "(line 3): must be a JSON object, not a list",
    ]
