"""Runs its code."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rl.base.records import TraceRecord
from rl.rewards.base import BaseReward, RewardResult
from rl.rewards.blocks import Block, fenced_blocks, program_of
from rl.sandbox import LANGUAGES, Limits, Result, TestCase, grade, run

MOST_BLOCKS, MOST_TESTS = 8, 100
TEST_SECONDS = 5.0
"""Time for a test that names no timeout, and for a block."""
BUDGET_SECONDS = 30.0
"""Time for running all code of one answer; what is left then counts as failed."""


class CodeExecutionReward(BaseReward):
    """Runs the answer's code in the sandbox; abstains where there is none.

    With tests (``details["tests"]``: [{input, output, timeout?}], Miniagent's) the last python block, or the whole answer
    where it has no block, is the program, and the value is the share of the tests whose output it prints.

    Abstains on episodes without such tests, which may be programs that read a task's input.

    Without tests the value is the share of the python and shell blocks that end with exit code 0. That is weak: it shows
    that code runs, not that it does what was asked, and ``pass`` earns 1. Give tests wherever there are some."""

    name = "code_execution"
    weight = 2.0

    def compute(self, trace: TraceRecord) -> RewardResult:
        blocks = fenced_blocks(trace.response)
        if blocks is None:
            return self.abstains("the answer is too long to look at")
        if tests := trace.details.get("tests"):
            return self._run_tests(program_of(trace.response, blocks), tests)
        if trace.details.get("episode"):
            return self.abstains("an environment judges what such code does")
        code = [block for block in blocks if block.language in LANGUAGES and block.code.strip()][:MOST_BLOCKS]
        if not code:
            return self.abstains("it has no python or shell block")
        runs = list(_run_blocks(code))
        good = sum(block_run["exit"] == 0 for block_run in runs)
        return self.gives(good / len(runs), f"{good} of {len(runs)} code blocks end with exit code 0", blocks=runs)

    def _run_tests(self, program: str, tests: object) -> RewardResult:
        if not isinstance(tests, list) or len(tests) > MOST_TESTS:
            return self.abstains(f"its tests are not a list of at most {MOST_TESTS}")
        cases = []
        for number, test in enumerate(tests, start=1):
            fields = test if isinstance(test, Mapping) else {}
            stdin, output = fields.get("input") or "", fields.get("output")
            timeout = fields.get("timeout") or TEST_SECONDS
            is_time = isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and timeout > 0
            if not (isinstance(stdin, str) and isinstance(output, str) and is_time):
                text = "is not an object with input and output (text) and timeout (seconds)"
                return self.abstains(f"test {number} {text}")
            cases.append((TestCase(output, stdin=stdin), Limits.of_seconds(min(timeout, 2 * TEST_SECONDS))))
        outcomes = list(_grade_tests(program, cases))
        passed = outcomes.count("")
        reason = f"{passed} of {len(cases)} tests passed"
        failures = [{"test": number, "reason": why} for number, why in enumerate(outcomes, start=1) if why][:5]
        return self.gives(passed / len(cases), reason, tests=len(cases), passed=passed, failures=failures)


def _grade_tests(program: str, cases: Sequence[tuple[TestCase, Limits]]) -> Iterator[str]:
    """Why each test failed; empty for one that passed."""
    spent = 0.0
    for case, limits in cases:
        if spent > BUDGET_SECONDS:
            yield "the time for all tests was used up"
            continue
        (outcome,) = grade(program, [case], limits=limits).outcomes
        spent += outcome.result.duration
        yield outcome.reason


def _run_blocks(blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    """A block that fails alone is run once more after the earlier ones of its language: many answers go on step by step."""
    earlier: dict[str, str] = {}
    spent = 0.0
    for block in blocks:
        before = earlier.get(block.language, "")
        earlier[block.language] = f"{before}{block.code}\n"
        if spent > BUDGET_SECONDS:
            yield {"language": block.language, "exit": None, "error": "the time for all blocks was used up"}
            continue
        result = _run(block.code, block.language)
        spent += result.duration
        if result.exit and before and not result.stopped:
            result = _run(earlier[block.language], block.language)
            spent += result.duration
        yield {"language": block.language, "exit": result.exit, "error": _error(result)}


def _run(code: str, language: str) -> Result:
    return run(code, language, limits=Limits.of_seconds(TEST_SECONDS))


def _error(result: Result) -> str:
    """The last words of a program that failed, fit for a database."""
    if result.exit == 0:
        return ""
    if result.stopped:
        return f"it reached the {result.stopped} limit"
    lines = result.stderr.replace("\x00", "").strip().splitlines()
    return lines[-1][:200] if lines else ""
