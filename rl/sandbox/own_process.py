"""Starts the sandbox's own processes: a small Python that has nothing of this one, and imports none of its packages."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rl.sandbox import programs

MARSHAL_VERSION: Final = 4
"""marshal's version for what the processes are sent: they may run a system's Python of another version."""
_START: Final = """\
import sys
fresh = set(sys.modules)
for name, folder in ("rl", ".."), ("rl.sandbox", "."):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [folder]
from rl.sandbox import {module}
control, parent = map(int, sys.argv[1:])
{module}.{call}
"""


def start(
    module: str, call: str, channel: int, environment: Mapping[str, str], stdin: int, stdout: int, stderr: int
) -> subprocess.Popen[bytes]:
    """``call`` may use ``control`` (the descriptor of the channel), ``parent`` (this PID) and ``fresh`` (the modules of a
    new interpreter)."""
    python = programs.interpreter("python").command[0]
    return subprocess.Popen(
        [
            python,
            *programs.PYTHON_OPTIONS,
            "-c",
            _START.format(module=module, call=call),
            str(channel),
            str(os.getpid()),
        ],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=(channel,),
        env=dict(environment),
        cwd=Path(__file__).parent,
        start_new_session=True,
    )
