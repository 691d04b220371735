from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.environments.code_exec import CodeExecEnv, ExecCode
from rl.environments.contract import Action, Step, ToolRequest
from rl.environments.dialects.hermes import read_action
from rl.environments.tools import ToolFailed

pytestmark = pytest.mark.process


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


# --- what a call earns -------------------------------------------------------------------------------------------------

DOUBLED = "print(int(input()) * 2)"


def called(code: str, tool: str = "exec_code") -> Action:
    return Action("", (ToolRequest(tool, {"code": code}),))


def environment_of(reward_on: str, task: dict[str, Any] = DOUBLE, **settings: Any) -> CodeExecEnv:
    environment = CodeExecEnv(reward_on=reward_on, **settings)
    environment.reset(task)
    return environment


@pytest.mark.parametrize("reward_on", ["tool_call", "either"])
@pytest.mark.parametrize("tool", ["exec_code", "code_exec"])
def test_a_call_whose_program_passes_every_test_earns_the_reward_at_once(reward_on: str, tool: str):
    environment = environment_of(reward_on, success_reward=2.0)
    wrong = environment.step(called("print(4)", tool))
    assert (wrong.observation, wrong.reward, wrong.done) == ("4", 0.0, False)
    right = environment.step(called("\n    " + DOUBLED, tool))
    assert (right.reward, right.done, right.info["reason"]) == (2.0, True, "all 2 tests passed")


def test_words_alone_earn_nothing_and_end_nothing_where_calls_count():
    environment = environment_of("tool_call", timeout_penalty=-0.4, max_turns=2)
    words = environment.step(Action(f"```python\n{DOUBLED}\n```"))
    assert (words.reward, words.done, words.observation) == (0.0, False, environment.after_wrong_answer)
    last = environment.step(Action("It is done."))
    assert (last.reward, last.done, last.info["reason"]) == (-0.4, True, "not solved within 2 turns")


def test_a_call_earns_nothing_where_answers_count():
    environment = environment_of("answer")
    assert not environment.step(called(DOUBLED)).done
    assert environment.step(Action(DOUBLED)).reward == 1.0


def test_where_either_counts_an_answer_ends_the_episode():
    assert environment_of("either").step(Action(DOUBLED)).reward == 1.0
    wrong = environment_of("either").step(Action("I do not know."))
    assert (wrong.reward, wrong.done) == (0.0, True)


def test_the_first_of_several_calls_that_is_right_ends_the_turn():
    environment = environment_of("tool_call")
    step = environment.step(
        Action("", (called("print(1)").calls[0], called(DOUBLED).calls[0], called("1 / 0").calls[0]))
    )
    assert (step.reward, len(environment.calls)) == (1.0, 2)


@pytest.mark.parametrize("reward_on", ["tool_call", "either"])
def test_without_tests_a_text_in_what_the_tool_returned_is_success(reward_on: str):
    task = {"task_id": "m", "prompt": "Say it.", "reference_solution": "All tests passed."}
    environment = environment_of(reward_on, task)
    assert not environment.step(called("print('All tests')")).done
    assert environment.step(called("print('All tests passed.')")).reward == 1.0


def test_without_tests_an_answer_is_judged_by_what_the_tool_returned_last():
    environment = environment_of("answer", {"task_id": "m", "prompt": "Say it.", "reference_solution": "Done."})
    environment.step(called("print('Done.')"))
    assert environment.step(Action("I did it.")).reward == 1.0
    environment.reset({"task_id": "m", "prompt": "Say it.", "reference_solution": "Done."})
    assert environment.step(Action("Done.")).reward == 0.0


@pytest.mark.parametrize("reference", ["All tests passed.", "PASS", ""])
@pytest.mark.parametrize("reward_on", ["answer", "tool_call", "either"])
def test_a_demonstration_plays_the_program_and_not_the_text_that_marks_success(reference: str, reward_on: str):
    task = {**DOUBLE, "reference_solution": reference, "ground_truth": DOUBLED}
    environment = environment_of(reward_on, task)
    for action in environment.demonstration(task):
        step = environment.step(action)
    assert (step.reward, step.done) == (1.0, True)


def test_a_task_without_a_program_has_no_demonstration():
    for extra in ({"reference_solution": "All tests passed."}, {"ground_truth": [1]}, {}):
        assert CodeExecEnv().demonstration({**DOUBLE, **extra}) == ()


def test_what_earns_the_reward_is_one_of_three():
    with pytest.raises(UsageError, match="reward_on must be one of answer, tool_call, either, not 'tests'"):
        CodeExecEnv(reward_on="tests")


def test_the_instructions_say_what_counts():
    assert CodeExecEnv(reward_on="tool_call").instructions == CodeExecEnv.by_call
    assert CodeExecEnv(reward_on="tool_call", system_prompt="Do.").instructions == "Do."


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("print(int(input()) * 2)", "42"),
        ("pass", "(no output)"),
        ("import sys; print('half'); sys.exit(3)", "half\nexit code 3"),
    ],
    ids=["prints", "silent", "fails"],
)
def test_it_returns_what_the_program_printed(code: str, told: str):
    assert ExecCode().run(code, stdin="21") == told


def test_an_error_is_what_the_agent_reads():
    said = ExecCode().run("1 / 0")
    assert "ZeroDivisionError: division by zero" in said
    assert said.endswith("exit code 1")


def test_a_program_that_does_not_end_is_a_tool_that_failed():
    with pytest.raises(ToolFailed, match=r"the program did not end within 0\.3 seconds") as failed:
        ExecCode(timeout=0.3).run("while True: pass")
    assert failed.value.timed_out


def test_a_program_that_prints_without_end_is_stopped():
    with pytest.raises(ToolFailed, match="the program reached the output limit"):
        ExecCode().run("while True: print('x' * 1000)")
