from dataclasses import replace
from functools import cache

import pytest

from rl.base.errors import UsageError
from rl.sandbox import Grade, Limits, TestCase, ensure_available, grade
from rl.sandbox.backends import available
from tests import security_tables
from tests.missing import missing
from tests.sandbox.cheats import CHEATS, HONEST, TESTS

pytestmark = pytest.mark.process
LIMITS = Limits(wall_seconds=1.5, cpu_seconds=1, memory_bytes=64 * 2**20)


@pytest.fixture(autouse=True)
def _sandbox():
    if all(available().values()):
        missing("a sandbox", "bubblewrap libseccomp2")
    ensure_available()


@cache
def graded(program: str) -> Grade:
    return grade(program, TESTS[:2], limits=LIMITS, function="squares")


def test_the_honest_submission_passes():
    result = grade(HONEST, TESTS, limits=LIMITS, function="squares")
    assert (result.passed, result.total, {outcome.reason for outcome in result.outcomes}) == (3, 3, {""})
    assert result.outcomes[0].result.stderr == "working\n"


@pytest.mark.parametrize("name", CHEATS)
def test_the_cheat_passes_no_test(name: str):
    result = graded(CHEATS[name][1])
    assert result.passed == 0
    assert all(outcome.reason for outcome in result.outcomes)


def test_the_table_of_cheats_is_what_was_seen():
    rows = [("submission", "what it does", "result")]
    for name, (does, program) in CHEATS.items():
        rows.append((f"`{name}`", does, "refused" if graded(program).passed == 0 else "REWARDED"))
    rows.append(("`honest`", "the work", "passed" if graded(HONEST).passed == 2 else "REFUSED"))
    security_tables.check("cheats", security_tables.table(*rows))


def test_a_wrong_submission_passes_what_it_gets_right():
    result = grade("def squares(n): return 14", TESTS[:2], limits=LIMITS, function="squares")
    assert [outcome.passed for outcome in result.outcomes] == [True, False]
    assert result.outcomes[1].reason == "it returned something else"


def test_expected_values_never_enter_the_box():
    """The program tells all that it can find out: nothing of it is the expected value."""
    spy = """
import gc, os, sys
def f():
    found = repr(sys._getframe(1).f_globals) + repr(gc.get_objects()) + sys.stdin.read()
    os.write(2, found.encode(errors="replace")[-200_000:])
"""
    expected = "an answer that is found nowhere else"
    (outcome,) = grade(spy, [TestCase(expected)], function="f").outcomes
    assert "marker" in outcome.result.stderr
    assert expected not in outcome.result.stderr + outcome.result.stdout


@pytest.mark.parametrize(
    ("returned", "expected", "passes"),
    [
        ("(1, 2)", [1, 2], True),
        ("{1: [None, True]}", {"1": [None, True]}, True),
        ("'ü🦜\\n'", "ü🦜\n", True),
        ("0.1 + 0.2", 0.3, True),
        ("0.3001", 0.3, False),
        ("1", True, False),
        ("True", 1, False),
        ("1.0", 1, False),
        ("[1, 2.0]", [1, 2], False),
        ("{'a': 1, 'b': 2}", {"a": 1}, False),
        ("[1]", [1, 2], False),
        ("{1, 2}", [1, 2], False),
        ("10**5000", 1, False),
        ("None", None, True),
    ],
)
def test_answers_are_compared_by_type_and_value(returned: str, expected, passes: bool):
    assert grade(f"def f(): return {returned}", [TestCase(expected)], function="f").passed == passes


def test_an_answer_too_deep_to_read_is_refused():
    program = """
import os, sys
def f():
    names = sys._getframe(1).f_globals
    os.write(names["answers"], (names["task"]["marker"] + "[" * 50_000 + chr(10)).encode())
    os._exit(0)
"""
    (outcome,) = grade(program, [TestCase(1)], function="f").outcomes
    assert (outcome.passed, outcome.reason) == (False, "its answer is not JSON")


def test_a_program_is_graded_by_what_it_prints():
    tests = [TestCase("6\n", stdin="1 2 3\n"), TestCase(" 0", stdin="\n"), TestCase("7", stdin="1\n")]
    result = grade("print(sum(map(int, input().split())))", tests)
    assert [outcome.passed for outcome in result.outcomes] == [True, True, False]
    assert grade("read -r a b; echo $((a * b))", [TestCase("6", stdin="2 3\n")], "shell").passed == 1


def test_neither_a_crash_nor_its_exit_code_decides_about_a_program():
    assert grade("print('6')\nraise SystemExit(9)", [TestCase("6")]).passed == 1
    assert grade("raise SystemExit(0)", [TestCase("6")]).passed == 0


def test_a_program_that_does_not_end_in_time_fails_whatever_it_has_printed():
    program = "print('6', flush=True)\nwhile True: pass"
    (outcome,) = grade(program, [TestCase("6")], limits=replace(LIMITS, wall_seconds=0.3)).outcomes
    assert (outcome.passed, outcome.reason) == (False, "it reached the wall limit")


@pytest.mark.parametrize(
    ("tests", "options", "says"),
    [
        ([], {}, "without tests"),
        ([TestCase(1)], {"language": "shell", "function": "f"}, "only functions in python"),
        ([TestCase({1, 2})], {"function": "f"}, "must be JSON"),
        ([TestCase(1, arguments=(object(),))], {"function": "f"}, "must be JSON"),
        ([TestCase(1)], {}, "expected to print 1"),
    ],
)
def test_tests_that_make_no_sense_are_refused(tests, options: dict, says: str):
    with pytest.raises(UsageError, match=says):
        grade("print(1)", tests, **options)
