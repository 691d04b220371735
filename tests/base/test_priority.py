"""How a process gives way: under the real kernel, in a session of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process


AUTOGROUP = Path("/proc/self/autogroup")
GIVE_WAY = """
import os
from pathlib import Path
from rl.base.priority import give_way
give_way(5)
group = Path("/proc/self/autogroup")
print(os.nice(0), group.read_text().split()[-1] if group.exists() else "none")
"""
LOWER = str(min(19, os.nice(0) + 5))


def tell(code: str) -> list[str]:
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, start_new_session=True
    )
    return child.stdout.split()


def test_a_process_that_gives_way_has_the_lower_priority():
    assert tell(GIVE_WAY)[0] == LOWER


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel does not weigh sessions")
def test_its_session_has_it_too():
    assert tell(GIVE_WAY)[1] == "5"


def test_where_sessions_are_not_weighed_the_process_has_it_all_the_same():
    without = GIVE_WAY.replace(
        "give_way(5)", "Path.write_text = lambda *_, **__: open('/nowhere/at/all', 'w')\ngive_way(5)"
    )
    assert tell(without)[0] == LOWER
