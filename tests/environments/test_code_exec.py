from __future__ import annotations

import pytest

from rl.environments.code_exec import CodeExecEnv
from rl.environments.contract import Step
from rl.environments.dialects.hermes import read_action

DOUBLE = {
    "task_id": "double",
    "prompt": "Print the double of a number.",
    "tests": [{"input": "2\n", "output": "4"}, {"input": "-5", "output": "-10\n"}],
}


def answered(answer: str, **settings: float) -> Step:
    environment = CodeExecEnv(failure_penalty=-0.1, timeout_penalty=-0.3, **settings)
    environment.reset(DOUBLE)
    return environment.step(read_action(answer))


def test_the_reward_is_earned_when_every_test_passes():
    step = answered("Here it is:\n```python\nprint(int(input()) * 2)\n```\nDone.")
    assert (step.reward, step.done) == (1.0, True)
    assert (step.info["reason"], step.info["passed"], step.info["tests"]) == ("all 2 tests passed", 2, 2)


def test_an_answer_without_a_block_is_the_program():
    assert answered("print(int(input()) * 2)").reward == 1.0


@pytest.mark.parametrize(
    ("answer", "reason", "passed"),
    [
        ("```python\nprint(4)\n```", "test 2 of 2 failed: it printed something else", 1),
        ("I do not know.", "test 1 of 2 failed: it printed something else", 0),
        ("```python\n\n```", "the answer has no program", None),
    ],
    ids=["half", "words", "nothing"],
)
def test_an_answer_that_fails_one_test_earns_nothing(answer: str, reason: str, passed: int | None):
    step = answered(answer)
    assert (step.reward, step.info["reason"], step.info.get("passed")) == (-0.1, reason, passed)


def test_a_program_that_does_not_end_has_a_penalty_of_its_own():
    step = answered("while True: pass", test_timeout=0.3)
    assert (step.reward, step.info["timed_out"]) == (-0.3, True)


def test_a_test_may_have_a_time_of_its_own():
    environment = CodeExecEnv(test_timeout=0.2)
    environment.reset({**DOUBLE, "tests": [{"input": "2", "output": "4", "timeout": 5}]})
    assert environment.step(read_action("import time; time.sleep(0.5); print(4)")).reward == 1.0


def test_the_starting_code_is_shown_and_code_can_be_tried():
    environment = CodeExecEnv()
    messages = environment.reset({**DOUBLE, "starter_code": "number = int(input())"})
    assert messages[-1]["content"].endswith("Start from:\n```python\nnumber = int(input())\n```")
    call = '<tool_call>{"name": "exec_code", "arguments": {"code": "print(input())", "stdin": "hello"}}</tool_call>'
    assert environment.step(read_action(call)).observation == "hello"
