"""Tests that run in forks of the process that collected them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
ROOT = Path(__file__).resolve().parent.parent
CONFTEST = """
import os, pytest
pytest_plugins = ["tests.forks"]

@pytest.fixture(scope="session", autouse=True)
def shared(request):
    yield
    with open("torn-down", "a") as file:
        file.write(f"{os.getpid()}\\n")

@pytest.fixture(autouse=True)
def note(request, shared):
    with open("ran", "a") as file:
        file.write(f"{request.node.nodeid} {os.getpid()} {os.environ['DATA_DIR']}\\n")
"""
FILE = "import pytest\n@pytest.mark.parametrize('number', range(4))\ndef test_it(number): pass\n"
BROKEN = """
import os

def test_before(): pass

def test_fails():
    print("its own words")
    assert 1 == 2

def test_dies(): os._exit(7)

def test_behind(): pass
"""


def run(folder: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "root").mkdir()
    plugins = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:schemathesis", "-p", "no:xdist")
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "RATCHET_TEST_ROOT": str(folder / "root"),
    }
    variables.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "--rootdir", str(folder), "--forks", "2", *options]
    return subprocess.run(command, capture_output=True, text=True, env=variables, cwd=folder)


def lines(file: Path) -> list[list[str]]:
    return [line.split() for line in file.read_text().splitlines()]


def test_each_test_runs_once_and_a_file_in_one_fork_with_a_directory_of_its_own(tmp_path: Path):
    done = run(tmp_path, {f"test_{name}.py": FILE for name in "abcdef"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "24 passed" in done.stdout
    ran = lines(tmp_path / "ran")
    assert len({name for name, _, _ in ran}) == len(ran) == 24
    files = {(name.split("::")[0], pid) for name, pid, _ in ran}
    assert len(files) == 6
    forks = {(pid, data) for _, pid, data in ran}
    assert {data for _, data in forks} <= {str(tmp_path / "root" / name / "data") for name in ("gw0", "gw1")}
    assert sorted(pid for (pid,) in lines(tmp_path / "torn-down")) == sorted(pid for pid, _ in forks)


def test_one_that_dies_fails_its_test_and_the_others_of_its_file_run(tmp_path: Path):
    done = run(tmp_path, {"test_a.py": BROKEN, "test_b.py": FILE})
    assert done.returncode == 1
    assert "2 failed, 6 passed" in done.stdout
    assert "the process of this test ended: exit code 7" in done.stdout
    assert done.stdout.count("its own words") == 2, "in the source that is shown, and as what it printed"
    assert [name for name, _, _ in lines(tmp_path / "ran") if "test_a" in name] == [
        f"test_a.py::test_{name}" for name in ("before", "fails", "dies", "behind")
    ]


def test_the_first_failure_stops_all_where_that_is_asked_for(tmp_path: Path):
    done = run(tmp_path, {"test_a.py": BROKEN}, "-x")
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "stopping after 1 failures" in done.stdout
