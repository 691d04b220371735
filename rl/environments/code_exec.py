"""Programming tasks: the agent may run code, and a program of its is judged by tests in the sandbox."""

import ast
from collections.abc import Mapping, Sequence
from textwrap import dedent
from typing import Any

from rl.base.errors import UsageError
from rl.environments.base import AgentEnv
from rl.environments.contract import Action, Judgement, ToolRequest
from rl.environments.tasks.records import CodeTask
from rl.environments.tools import BaseTool, ToolFailed
from rl.rewards.blocks import fenced_blocks, program_of
from rl.sandbox import Limits, TestCase, grade, run


class ExecCode(BaseTool):
    name = "exec_code"
    aliases = ("code_exec",)

    def __init__(self, timeout: float = 5.0) -> None:
        """Seconds of a call that names none."""
        self._timeout = timeout

    def run(self, code: str, stdin: str = "", timeout: float | None = None) -> str:
        """Runs a Python program and returns what it printed.

        Args:
            code: The whole program.
            stdin: What it reads.
            timeout: Seconds after which it is stopped."""
        seconds = min(timeout if timeout and timeout > 0 else self._timeout, 30.0)
        result = run(dedent(code), "python", stdin, Limits.of_seconds(seconds))
        if result.timed_out:
            raise ToolFailed(f"the program did not end within {seconds:g} seconds", timed_out=True)
        if result.stopped:
            raise ToolFailed(f"the program reached the {result.stopped} limit")
        ending = f"exit code {result.exit}" if result.exit else ""
        parts = (result.stdout.rstrip(), result.stderr.rstrip(), ending)
        return "\n".join(filter(None, parts)) or "(no output)"


TEST_SECONDS = 5.0
"""Time for a test that names no timeout."""
REWARD_ON = ("answer", "tool_call", "either")
"""What may earn the reward: the answer's program, the program of a call of the tool, or whichever comes first."""


class CodeExecEnv(AgentEnv):
    """Tasks: ``prompt``, ``starter_code``, ``tests`` ([{input, output, timeout?}]). A program passes when it passes every
    test: its stripped output equals the stripped ``output``. ``reward_on`` answer: it is the answer's last Python block (or
    the whole answer where it has none). tool_call: it is the ``code`` of a call of exec_code; the first that passes ends the
    episode, and words alone neither end it nor earn anything. either: both, and an answer ends the episode.

    A task without tests is solved when the text of its ``reference_solution`` stands in what the tool returned last."""

    name = "code_exec"
    tasks = CodeTask
    system_prompt = (
        "You solve programming tasks in Python. A program reads stdin and prints to stdout. Try your code with the tool "
        "exec_code; then answer with the whole program in one ```python block."
    )
    by_call = (
        "You solve programming tasks in Python. A program reads stdin and prints to stdout. Call the tool exec_code with "
        "the whole program: the task is solved by the first call whose program is right."
    )
    """The system prompt where only calls earn the reward."""
    after_wrong_answer = "Nothing was run. Call the tool exec_code with the whole program."

    def __init__(
        self,
        tools: tuple[BaseTool, ...] | None = None,
        *,
        test_timeout: float = TEST_SECONDS,
        reward_on: str = "answer",
        **settings: Any,
    ) -> None:
        """``test_timeout``: seconds of a test that names none."""
        if reward_on not in REWARD_ON:
            raise UsageError(f"reward_on must be one of {', '.join(REWARD_ON)}, not {reward_on!r:.50}")
        if reward_on == "tool_call":
            instructions = settings.get("system_prompt")
            by_call = self.by_call if instructions is None else instructions
            settings |= {"system_prompt": by_call, "wrong_answer_ends": False}
        super().__init__((ExecCode(),) if tools is None else tools, **settings)
        self._timeout, self._reward_on = test_timeout, reward_on

    def prompt(self, task: Mapping[str, Any]) -> str:
        starter = task.get("starter_code")
        return f"{task['prompt']}\n\nStart from:\n```python\n{starter}\n```" if starter else str(task["prompt"])

    def demonstration(self, task: Mapping[str, Any]) -> Sequence[Action]:
        """Calls the tool with the task's program, on the first test's input; then answers with it, where answers count."""
        program = solution_of(task)
        if not program:
            return ()
        tests = task.get("tests") or [{}]
        trial = Action("", (ToolRequest("exec_code", {"code": program, "stdin": tests[0].get("input") or ""}),))
        return (trial, Action(f"```python\n{program}\n```")) if self._reward_on == "answer" else (trial,)

    def judge(self, answer: str) -> Judgement:
        if self._reward_on == "tool_call":
            return Judgement(False, "the program of a call is judged, not an answer")
        if not self.task.get("tests"):
            return self._judge_output()
        blocks = fenced_blocks(answer)
        return self._judge_program("" if blocks is None else program_of(answer, blocks, ("python", "")))

    def judge_call(self, call: ToolRequest) -> Judgement | None:
        code, runs_code = call.arguments.get("code"), isinstance(self.tools.find(call.name), ExecCode)
        if self._reward_on == "answer" or not runs_code or not isinstance(code, str):
            return None
        return self._judge_program(dedent(code)) if self.task.get("tests") else self._judge_output()

    def _judge_program(self, program: str) -> Judgement:
        if not program.strip():
            return Judgement(False, "the answer has no program")
        tests = self.task["tests"]
        for number, test in enumerate(tests, start=1):
            limits = Limits.of_seconds(float(test.get("timeout") or self._timeout))
            case = TestCase(test["output"], stdin=test.get("input") or "")
            outcome = grade(program, [case], limits=limits).outcomes[0]
            if not outcome.passed:
                details = {"passed": number - 1, "tests": len(tests)}
                reason = f"test {number} of {len(tests)} failed: {outcome.reason}"
                return Judgement(False, reason, outcome.result.timed_out, details)
        return Judgement(True, f"all {len(tests)} tests passed", details={"passed": len(tests), "tests": len(tests)})

    def _judge_output(self) -> Judgement:
        expected = str(self.task["reference_solution"])
        if self.calls and expected in str(self.calls[-1].result or ""):
            return Judgement(True, "the tool returned what was expected")
        return Judgement(False, "the tool did not return what was expected", details={"expected": expected})


def solution_of(task: Mapping[str, Any]) -> str:
    """The program that solves the task: ``reference_solution``, or ``ground_truth`` where that is only a text that marks
    success; empty where neither is a program."""
    candidates = (task.get("reference_solution"), task.get("ground_truth"))
    return next((text for text in candidates if isinstance(text, str) and _does_something(text)), "")


def _does_something(text: str) -> bool:
    """Whether it is Python with an effect: ``PASS`` alone, or a sentence, is not."""
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(
        not isinstance(statement, ast.Expr) or any(isinstance(node, ast.Call) for node in ast.walk(statement))
        for statement in statements
    )
