from __future__ import annotations

import pytest

from rl.environments.tools import ToolFailed
from rl.environments.tools.exec_code import ExecCode

pytestmark = pytest.mark.process


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
