"""Grades a program by what it answers, never by how it ends: exit code 0 rewards every cheat that was tried.

Each input goes into a fresh box; the expected values never do, so there is nothing inside to read, to patch or to raise that
decides. What comes out is compared out here. Printing something that looks like a pass gains nothing."""

import json
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from rl.base.errors import UsageError
from rl.sandbox.backends import DEFAULT_LIMITS, run
from rl.sandbox.contract import Limits, Result

_DRIVER: Final = """\
import json, os, sys, types
task = json.loads(sys.stdin.read())
answers = os.dup(1)
os.dup2(2, 1)
os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
module = types.ModuleType("submission")
sys.modules["submission"] = module
exec(compile(task["program"], "submission.py", "exec"), module.__dict__)
value = getattr(module, task["function"])(*task["arguments"])
frame = memoryview((task["marker"] + json.dumps(value) + chr(10)).encode())
while frame:
    frame = frame[os.write(answers, frame):]
"""
"""Runs in the box. What the program prints goes to stderr, its stdin is empty, its ``__main__`` block does not run."""


@dataclass(frozen=True, slots=True)
class TestCase:
    """A whole program gets ``stdin``, and must print what is expected, apart from white space at both ends. A function
    gets ``arguments``, and must return what is expected, as JSON has it (a tuple is a list)."""

    __test__: ClassVar[bool] = False
    """It is not a class of tests, whatever pytest thinks of its name."""

    expected: Any
    stdin: str = ""
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    passed: bool
    reason: str
    """Why it did not pass."""
    result: Result


@dataclass(frozen=True, slots=True)
class ReturnValue:
    value: Any
    """JSON."""
    problem: str
    """Why there is no value; empty where there is."""
    result: Result


@dataclass(frozen=True, slots=True)
class Grade:
    passed: int
    total: int
    outcomes: tuple[CaseOutcome, ...]


def grade(
    program: str,
    tests: Sequence[TestCase],
    language: str = "python",
    limits: Limits = DEFAULT_LIMITS,
    function: str | None = None,
    *,
    backend: str | None = None,
) -> Grade:
    """``function``: the name of the Python function that is called; the whole program is run if left out.

    Raises UsageError where there are no tests, where they do not fit or are not JSON, SandboxUnavailable as ``run`` does."""
    if not tests:
        raise UsageError("a program cannot be graded without tests")
    if function is not None and language != "python":
        raise UsageError(f"only functions in python can be called, not in {language}")
    outcomes = tuple(
        _whole_program(program, test, language, limits, backend)
        if function is None
        else _call(program, function, test, limits, backend)
        for test in tests
    )
    return Grade(sum(outcome.passed for outcome in outcomes), len(outcomes), outcomes)


def _whole_program(program: str, test: TestCase, language: str, limits: Limits, backend: str | None) -> CaseOutcome:
    if not isinstance(test.expected, str):
        raise UsageError(f"a program prints text; it cannot be expected to print {test.expected!r}")
    result = run(program, language, test.stdin, limits, backend=backend)
    if result.stopped:
        return CaseOutcome(False, _reason_of_limit(result), result)
    passed = result.stdout.strip() == test.expected.strip()
    return CaseOutcome(passed, "" if passed else "it printed something else", result)


def _call(program: str, function: str, test: TestCase, limits: Limits, backend: str | None) -> CaseOutcome:
    expected = json.loads(_as_json(test.expected))
    answer = call(program, function, test.arguments, limits, backend=backend)
    if answer.problem:
        return CaseOutcome(False, answer.problem, answer.result)
    passed = _equal(answer.value, expected)
    return CaseOutcome(passed, "" if passed else "it returned something else", answer.result)


def call(
    program: str,
    function: str,
    arguments: Sequence[Any],
    limits: Limits = DEFAULT_LIMITS,
    *,
    backend: str | None = None,
) -> ReturnValue:
    """What the Python function returns. Raises UsageError for arguments that are not JSON, SandboxUnavailable as ``run``
    does."""
    # The marker only tells the answer from other output. Whoever finds it out still needs the right answer.
    marker = f"\n{secrets.token_hex(16)} "
    task = {"program": program, "function": function, "arguments": arguments, "marker": marker}
    result = run(_DRIVER, "python", _as_json(task), limits, backend=backend)
    if result.stopped:
        return ReturnValue(None, _reason_of_limit(result), result)
    answers = [line.removeprefix(marker[1:]) for line in result.stdout.split("\n") if line.startswith(marker[1:])]
    if len(answers) != 1:
        return ReturnValue(None, "it gave several answers" if answers else "it gave no answer", result)
    try:
        return ReturnValue(json.loads(answers[0]), "", result)
    except (ValueError, RecursionError):
        return ReturnValue(None, "its answer is not JSON", result)


def _reason_of_limit(result: Result) -> str:
    return f"it reached the {result.stopped} limit"


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"arguments and expected values must be JSON: {error}") from error


def _equal(value: Any, expected: Any) -> bool:
    """Whether both are equal and of the same type all the way down: True is not 1, nor is 1.0. Floats may differ in the
    ninth digit."""
    if type(value) is not type(expected):
        return False
    if isinstance(value, float):
        return math.isclose(value, expected, rel_tol=1e-9)
    if isinstance(value, list):
        return len(value) == len(expected) and all(map(_equal, value, expected))
    if isinstance(value, dict):
        return value.keys() == expected.keys() and all(_equal(value[key], expected[key]) for key in expected)
    return bool(value == expected)
