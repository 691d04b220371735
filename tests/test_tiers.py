"""The tiers of the tests, tried on tests that do what their tier does not allow."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.process
DEEDS = """
import importlib, os, socket, subprocess, sys, threading, time
import pytest

def child(): subprocess.run([sys.executable, "-c", ""])
def fork():
    if (pid := os.fork()) == 0: os._exit(0)
    os.waitpid(pid, 0)
def port(): socket.create_server(("127.0.0.1", 0)).close()
def sleep(): time.sleep(0.001)
def sleep_of_another_thread():
    thread = threading.Thread(target=sleep)
    thread.start()
    thread.join()
def torch(): importlib.import_module("torch")
def wrapped_torch():
    try: import torch
    except Exception: pass
def child_of_an_import(): importlib.import_module("asks_a_program")
def nothing(): time.sleep(0)

DEEDS = [child, fork, port, sleep, sleep_of_another_thread, torch, wrapped_torch, child_of_an_import, nothing]

@pytest.mark.parametrize("deed", DEEDS)
def test_unit(deed): deed()

@pytest.mark.process
@pytest.mark.parametrize("deed", DEEDS)
def test_process(deed): deed()

@pytest.mark.learn
@pytest.mark.parametrize("deed", DEEDS)
def test_learn(deed): deed()

@pytest.fixture(scope="module")
def server(): port()

def test_first_with_a_server(server): pass
def test_second_with_a_server(server): pass
def test_without(): pass
"""
SLOWER = {
    "pytestmark = pytest.mark.learn": False,
    "pytestmark = [pytest.mark.django_db, pytest.mark.process]": False,
    "pytestmark = [\n    pytest.mark.process,\n    pytest.mark.django_db,\n]": False,
    "pytestmark = [pytest.mark.django_db]\nNAMES = [\n]\nOTHER = pytest.mark.process": True,
    "pytestmark = pytest.mark.django_db": True,
    "": True,
}


@pytest.fixture
def torch(tmp_path: Path) -> None:
    """One that costs nothing, and imports modules of its own as the real one does; and a library that asks a program."""
    (tmp_path / "asks_a_program.py").write_text("import subprocess, sys; subprocess.run([sys.executable, '-c', ''])")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import torch._C")
    (tmp_path / "torch" / "_C.py").write_text("")


def outcomes(folder: Path, *options: str) -> dict[str, str]:
    plugins = ["-p", "tests.tiers", "-p", "no:randomly", "-p", "no:django", "-p", "no:cacheprovider"]
    ours = ["-c", os.devnull, "--rootdir=.", "--override-ini=markers=process\nlearn", "-vv"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    command = [sys.executable, "-m", "pytest", *plugins, *ours, *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    found = dict(re.findall(r"^test_\w+\.py::(\S+) (\w+)", done.stdout, re.M))
    return {**found, "": done.stdout + done.stderr}


@pytest.mark.usefixtures("torch")
def test_a_test_may_do_what_its_tier_does_and_no_more(tmp_path: Path):
    (tmp_path / "test_deeds.py").write_text(DEEDS)
    found = outcomes(tmp_path)
    said = found.pop("")
    passed = {name for name, outcome in found.items() if outcome == "PASSED"}
    too_much = {f"test_unit[{name}]" for name in ("child", "fork", "port", "sleep", "torch")}
    assert found.keys() - passed == too_much | {"test_first_with_a_server", "test_second_with_a_server"}
    assert len(passed) > 15
    assert "of the tier unit, but binds a port: mark it process (tests/tiers.py)" in said


@pytest.mark.usefixtures("torch")
def test_the_first_two_refuse_torch_also_where_an_error_is_caught(tmp_path: Path):
    (tmp_path / "test_deeds.py").write_text(DEEDS)
    found = outcomes(tmp_path, "--tier", "unit")
    assert "test_learn[child]" not in found
    assert "test_process[child]" not in found
    assert (found["test_unit[torch]"], found["test_unit[wrapped_torch]"]) == ("FAILED", "FAILED")
    assert found["test_unit[nothing]"] == "PASSED"
    found = outcomes(tmp_path, "--tier", "process")
    assert (found["test_process[torch]"], found["test_process[wrapped_torch]"]) == ("FAILED", "FAILED")
    assert found["test_process[child]"] == "PASSED"


def test_files_of_the_slower_tiers_are_not_even_read(tmp_path: Path):
    for number, marks in enumerate(SLOWER):
        (tmp_path / f"test_{number}.py").write_text(f"import pytest\n{marks}\ndef test_{number}(): pass\n")
    found = outcomes(tmp_path, "--tier", "unit")
    assert {marks: f"test_{number}" in found for number, marks in enumerate(SLOWER)} == SLOWER
