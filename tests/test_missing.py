"""What a run says at its end of tests that were skipped for want of a tool."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.missing import missing, told

TESTS = """
import pytest
from tests.missing import missing, pytest_terminal_summary


@pytest.mark.parametrize("number", range(3))
def test_it(number):
    missing("a spoon", "cutlery spoon")


def test_that():
    missing("PostgreSQL (SPOON_URL names it)")


def test_another():
    pytest.skip("there is a GPU here")
"""


def run(folder: Path, environment: dict[str, str], *options: str) -> str:
    (folder / "conftest.py").write_text("from tests.missing import pytest_terminal_summary\n")
    (folder / "test_them.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:django", "-p", "no:cacheprovider", *options, str(folder)]
    root = Path(__file__).resolve().parent.parent
    variables = {"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", **environment}
    done = subprocess.run([*command, "--rootdir", str(folder)], capture_output=True, text=True, env=variables)
    return done.stdout


@pytest.mark.process
def test_its_end_says_what_is_missing_and_what_brings_it(tmp_path: Path):
    said = run(tmp_path, {}, "-p", "no:randomly")
    assert "4 tests were skipped for want of what this machine has not:" in said
    assert "      3  a spoon\n      1  PostgreSQL (SPOON_URL names it)\n" in said
    assert "what brings it: apt-get install cutlery spoon or sudo .ci/run" in said


@pytest.mark.process
def test_where_everything_must_be_there_it_fails(tmp_path: Path):
    said = run(tmp_path, {"CI": "1"})
    assert "a spoon is missing, and CI requires it" in said
    assert "4 failed, 1 skipped" in said


def test_a_run_that_has_everything_says_nothing():
    assert told(["Skipped: there is a GPU here", "Skipped: SQLite lets one transaction write at a time"]) == []


def test_a_reason_may_have_several_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception) as skipped:
        missing("a fork (it broke\nin two)")
    assert told([f"Skipped: {skipped.value}"])[1] == "      1  a fork (it broke\nin two)"
