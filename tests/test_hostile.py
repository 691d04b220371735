"""The hostile hour, short: benchmarks/hostile.py runs it for as long as one likes."""

import subprocess
import sys

import pytest
from django.conf import settings
from django.db import connection

pytestmark = pytest.mark.process


@pytest.mark.slow
@pytest.mark.skipif(connection.vendor != "sqlite", reason="it serves a site of its own, on SQLite")
def test_honest_users_are_answered_and_lose_nothing_while_others_attack():
    """How long they wait is measured by the benchmark, with attackers that take no time from them; here they must not wait
    for ever."""
    program = str(settings.BASE_DIR / "benchmarks/hostile.py")
    command = [sys.executable, program, "--minutes", "0.15", "--seed", "1", "--patience", "60", "--eager"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no violation" in done.stdout
