"""The crash test, short: benchmarks/crash.py runs it for as long as one likes."""

import subprocess
import sys
from types import ModuleType

import pytest
from django.conf import settings
from django.db import connection

FOLDER = settings.BASE_DIR / "benchmarks"


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    import crash_faults

    return crash_faults


def test_a_seed_says_what_is_killed_and_when(faults: ModuleType):
    everything = {"disk": True, "trains": True, "postgres": True}
    drawn = faults.plan(7, 1800, **everything)
    assert drawn == faults.plan(7, 1800, **everything)
    assert drawn != faults.plan(8, 1800, **everything)
    assert {fault.kind for fault in drawn} == {
        "web master",
        "web worker",
        "queue",
        "queue worker",
        "model server",
        "training",
        "llama.cpp server",
        "postgres",
        "full disk",
    }


@pytest.mark.process
@pytest.mark.slow
def test_what_was_acknowledged_is_kept_while_processes_are_killed_and_the_disk_is_full():
    own_server = ["--postgres"] if connection.vendor == "postgresql" else []
    command = [sys.executable, str(FOLDER / "crash.py"), "--minutes", "0.1", "--seed", "1", *own_server]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no violation" in done.stdout
