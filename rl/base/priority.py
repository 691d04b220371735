"""How a process that computes for long leaves a busy machine to those that wait for an answer."""

import os
from contextlib import suppress
from pathlib import Path


def give_way(niceness: int) -> None:
    """For a process that leads a session of its own: where Linux weighs sessions (autogroup in sched(7)), ``nice`` counts
    among the processes of one session alone."""
    os.nice(niceness)
    with suppress(OSError):  # not every system has it
        Path("/proc/self/autogroup").write_text(str(niceness), encoding="ascii")
