"""What ``manage.py test`` runs, and what it makes of failures."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest

from tests import run
from tests.failed import AGAIN, FINAL


@pytest.fixture
def pytest_(monkeypatch: pytest.MonkeyPatch) -> FakePytest:
    fake = FakePytest()
    monkeypatch.setattr(run, "_pytest", fake)
    return fake


class FakePytest:
    """Its exit codes, in turn, and what it writes of failures."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.codes: list[int] = []
        self.failed: list[str] = []

    def __call__(self, *arguments: str, told: BinaryIO | None = None) -> int:
        if told:
            told.write(b"of the second\n")
            told.flush()
        words = [*arguments]
        if "--write-failed" in words:
            at = words.index("--write-failed")
            with Path(words[at + 1]).open("w") as file:
                file.write("".join(f"{line}\n" for line in self.failed))
            del words[at : at + 2]
        self.calls.append(words)
        return self.codes.pop(0) if self.codes else 0


def test_the_quick_tests_come_first_and_alone_where_nobody_asks_for_more(
    pytest_: FakePytest, capfd: pytest.CaptureFixture[str]
):
    assert run.main([]) == 0
    assert run.main(["--fast", "tests/web", "-x"]) == 0
    assert run.main(["tests/web", "-k", "page"]) == 0
    first, *both, fast, named = pytest_.calls
    assert (first, sorted(both)) == ([*run.UNIT], [[*run.LEARN], [*run.PROCESS]])
    assert fast == [*run.UNIT, "tests/web", "-x"]
    order = f"order of the quick tests: {' '.join(run.ORDER)}"
    assert capfd.readouterr().out.splitlines() == [order, "of the second", order]
    assert named == ["tests/web", "-k", "page"]


def test_a_failure_of_the_first_part_does_not_hide_the_others(pytest_: FakePytest):
    pytest_.codes = [1, 0, 0]
    assert run.main([]) == 1
    assert len(pytest_.calls) == 3


def test_what_fails_once_and_passes_alone_is_listed(pytest_: FakePytest, capsys: pytest.CaptureFixture[str]):
    pytest_.codes, pytest_.failed = [1, 0], [f"{AGAIN}tests/a.py::b[c d]"]
    assert run.main(["--retry", "tests/a.py"]) == 0
    assert pytest_.calls == [["tests/a.py"], ["tests/a.py::b[c d]"]]
    assert "tests/a.py::b[c d]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("codes", "failed"),
    [
        ([1, 1], [f"{AGAIN}a"]),
        ([1], [f"{AGAIN}a", f"{FINAL}b"]),
        ([1], [f"{AGAIN}{name}" for name in "abcd"]),
        ([1], []),
        ([2], [f"{AGAIN}a"]),
        ([3], []),
    ],
    ids=["fails again", "one of the tier unit", "four", "none is known", "interrupted", "pytest broke"],
)
def test_what_is_no_bad_luck_fails_the_run(pytest_: FakePytest, codes: list[int], failed: list[str]):
    runs, pytest_.codes, pytest_.failed = len(codes), codes, failed
    assert run.main(["--retry", "tests"]) > 0
    assert len(pytest_.calls) == runs


def test_without_being_asked_for_nothing_is_tried_again(pytest_: FakePytest):
    pytest_.codes, pytest_.failed = [1], [f"{AGAIN}a"]
    assert run.main(["tests"]) == 1
