"""What must happen is waited for as long as a busy machine may take."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parent
WAITS = {"wait", "join", "wait_for", "acquire", "communicate", "settimeout", "wait_procs", "to_thread", "until"}
WHOLE_COMMAND = 600
"""Seconds, at the least, of waits for more than one step."""
ENDS = 2
"""What is meant to end without what it waits for, or is asked again, takes so many seconds at the most."""
PRODUCT = "OllamaDeployer"
"""Its own limit."""


def short_waits(text: str) -> Iterator[tuple[int, float]]:
    """Lines that wait for longer than ENDS and not for PATIENCE_SECONDS, or for more than that and not for WHOLE_COMMAND,
    and for how long."""
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func).rpartition(".")[2]
        limits = ("timeout", "seconds") if name in WAITS else ("timeout",)
        given = [keyword.value for keyword in call.keywords if keyword.arg in limits and name != PRODUCT]
        given += call.args[-1:] if name in WAITS else []
        for value in given:
            seconds = value.value if isinstance(value, ast.Constant) else None
            if isinstance(seconds, int | float) and (
                ENDS < seconds < PATIENCE_SECONDS or PATIENCE_SECONDS < seconds < WHOLE_COMMAND
            ):
                yield value.lineno, seconds


def counted_waits(text: str) -> list[int]:
    """Lines of loops that sleep some times and then give up: how long that is depends on a machine."""
    loops = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.For))
    names = {
        loop.lineno: [ast.unparse(call.func) for call in ast.walk(loop) if isinstance(call, ast.Call)] for loop in loops
    }
    return [line for line, called in names.items() if "range" in called and "time.sleep" in called]


def test_no_test_counts_its_waiting() -> None:
    files = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    assert {str(path): found for path, text in files.items() if (found := counted_waits(text))} == {}
    assert counted_waits("for _ in range(200):\n    if up():\n        break\n    time.sleep(0.1)\n") == [1]
    assert counted_waits("for word in words:\n    time.sleep(0.1)\n") == []


def test_no_test_waits_shorter_than_a_busy_machine_may_take() -> None:
    files = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    assert {str(path): found for path, text in files.items() if (found := [*short_waits(text)])} == {}


def test_such_waits_are_found() -> None:
    text = (
        "done.wait(5)\nhttpx.post(url, timeout=30)\ndone.wait(0.1)\nthread.join()\nthread.join(60)\ndone.wait(True)\n"
        "run(command, timeout=300)\nrun(command, timeout=1800)\nwait_for(row, seconds=120)\n"
    )
    assert [*short_waits(text)] == [(1, 5), (2, 30), (7, 300), (9, 120)]


@pytest.mark.process
def test_waiting_ends_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.waiting.PATIENCE_SECONDS", 0.0)
    assert until(lambda: 7) == 7
    with pytest.raises(AssertionError, match="did not happen"):
        until(lambda: 0, 0.0, 0.0, lambda seconds: None)
