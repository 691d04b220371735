"""Programming tasks: the agent may run code, and its last program is judged by tests in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rl.environments.base import AgentEnv
from rl.environments.contract import Action, Judgement, ToolRequest
from rl.environments.tasks.records import CodeTask
from rl.environments.tools import BaseTool
from rl.environments.tools.exec_code import ExecCode
from rl.rewards.blocks import fenced_blocks, program_of
from rl.sandbox import Limits, TestCase, grade
from rl.sandbox.grading import Outcome

TEST_SECONDS = 5.0
"""Time for a test that names no timeout."""


class CodeExecEnv(AgentEnv):
    """Tasks: ``prompt``, ``starter_code``, ``tests`` ([{input, output, timeout?}]). The reward is earned when the answer's
    last Python block (or the whole answer where it has none) passes every test: its stripped output equals the stripped
    ``output``."""

    name = "code_exec"
    tasks = CodeTask
    system_prompt = (
        "You solve programming tasks in Python. A program reads stdin and prints to stdout. Try your code with the tool "
        "exec_code; then answer with the whole program in one ```python block."
    )

    def __init__(
        self, tools: tuple[BaseTool, ...] | None = None, *, test_timeout: float = TEST_SECONDS, **settings: Any
    ) -> None:
        """``test_timeout``: seconds of a test that names none."""
        super().__init__((ExecCode(),) if tools is None else tools, **settings)
        self._timeout = test_timeout

    def prompt(self, task: Mapping[str, Any]) -> str:
        starter = task.get("starter_code")
        return f"{task['prompt']}\n\nStart from:\n```python\n{starter}\n```" if starter else str(task["prompt"])

    def demonstration(self, task: Mapping[str, Any]) -> Sequence[Action]:
        """Tries the reference solution on the first test, then answers with it."""
        program = task.get("reference_solution")
        if not program:
            return ()
        trial = ToolRequest("exec_code", {"code": program, "stdin": task["tests"][0].get("input") or ""})
        return Action("", (trial,)), Action(f"```python\n{program}\n```")

    def judge(self, answer: str) -> Judgement:
        blocks = fenced_blocks(answer)
        program = "" if blocks is None else program_of(answer, blocks, ("python", ""))
        if not program.strip():
            return Judgement(False, "the answer has no program")
        tests = self.task["tests"]
        for number, test in enumerate(tests, start=1):
            outcome = self._outcome(program, test)
            if not outcome.passed:
                details = {"passed": number - 1, "tests": len(tests)}
                reason = f"test {number} of {len(tests)} failed: {outcome.reason}"
                return Judgement(False, reason, outcome.result.timed_out, details)
        return Judgement(True, f"all {len(tests)} tests passed", details={"passed": len(tests), "tests": len(tests)})

    def _outcome(self, program: str, test: Mapping[str, Any]) -> Outcome:
        limits = Limits.of_seconds(float(test.get("timeout") or self._timeout))
        return grade(program, [TestCase(test["output"], stdin=test.get("input") or "")], limits=limits).outcomes[0]
