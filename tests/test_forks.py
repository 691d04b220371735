"""Tests that run in forks of the process that collected them."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import until

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


ENDLESS = """
import os, time

def test_goes_on():
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(600)
"""


def start(folder: Path, files: dict[str, str], *options: str) -> subprocess.Popen[str]:
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
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=variables, cwd=folder)


def run(folder: Path, files: dict[str, str], *options: str) -> tuple[int, str]:
    process = start(folder, files, *options)
    told, _ = process.communicate()
    return process.returncode, told


def lines(file: Path) -> list[list[str]]:
    return [line.split() for line in file.read_text().splitlines()]


def test_each_test_runs_once_and_a_file_in_one_fork_with_a_directory_of_its_own(tmp_path: Path):
    code, told = run(tmp_path, {f"test_{name}.py": FILE for name in "abcdef"})
    assert code == 0, told
    assert "24 passed" in told
    ran = lines(tmp_path / "ran")
    assert len({name for name, _, _ in ran}) == len(ran) == 24
    files = {(name.split("::")[0], pid) for name, pid, _ in ran}
    assert len(files) == 6
    forks = {(pid, data) for _, pid, data in ran}
    assert {data for _, data in forks} <= {str(tmp_path / "root" / name / "data") for name in ("gw0", "gw1")}
    assert sorted(pid for (pid,) in lines(tmp_path / "torn-down")) == sorted(pid for pid, _ in forks)


def test_one_that_dies_fails_its_test_and_the_others_of_its_file_run(tmp_path: Path):
    code, told = run(tmp_path, {"test_a.py": BROKEN, "test_b.py": FILE})
    assert code == 1
    assert "2 failed, 6 passed" in told
    assert "the process of this test ended: exit code 7" in told
    assert told.count("its own words") == 2, "in the source that is shown, and as what it printed"
    assert [name for name, _, _ in lines(tmp_path / "ran") if "test_a" in name] == [
        f"test_a.py::test_{name}" for name in ("before", "fails", "dies", "behind")
    ]


def test_the_first_failure_stops_all_where_that_is_asked_for(tmp_path: Path):
    code, told = run(tmp_path, {"test_a.py": BROKEN}, "-x")
    assert code == 1
    assert "1 failed, 1 passed" in told
    assert "stopping after 1 failures" in told


def test_they_end_with_the_process_that_made_them(tmp_path: Path):
    process = start(tmp_path, {"test_a.py": ENDLESS, "test_b.py": ENDLESS})
    pids = tmp_path / "pids"
    until(lambda: pids.exists() and len(lines(pids)) == 2)
    process.terminate()
    assert process.wait() == 2
    assert not [pid for (pid,) in lines(pids) if psutil.pid_exists(int(pid))]
