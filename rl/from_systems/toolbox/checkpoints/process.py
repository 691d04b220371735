"""Starts the process that reads one checkpoint, and reads what it writes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from rl.base.errors import BadFile

WALL_SECONDS = 120
"""On a busy machine 20 seconds of CPU take a while."""
_ROOT = Path(__file__).resolve().parents[4]
# Isolated, without site-packages and without our environment: the standard library and this project. The packages are bare,
# because their front doors would import five times more than the reader needs.
_COMMAND = """
import sys, types
sys.path.append(sys.argv[1])
for name in ("rl.from_systems", "rl.from_systems.toolbox", "rl.from_systems.toolbox.checkpoints"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1] + "/" + name.replace(".", "/")]
from rl.from_systems.toolbox.checkpoints.child import main
main()
"""


def read_lines(checkpoint: IO[bytes], name: object) -> Iterator[dict[str, Any]]:
    """About the checkpoint, then each conversation. Raises BadFile, which calls the file ``name``, before the first one."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        code = _run(checkpoint, output, errors, name)
        if code:
            raise BadFile(name, _explain_exit(code, errors))
        yield from _lines(output, name)


def _run(checkpoint: IO[bytes], output: IO[bytes], errors: IO[bytes], name: object) -> int:
    command = [sys.executable, "-I", "-S", "-c", _COMMAND, str(_ROOT)]
    try:
        return subprocess.run(
            command, stdin=checkpoint, stdout=output, stderr=errors, env={}, timeout=WALL_SECONDS, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        raise BadFile(name, f"took more than {WALL_SECONDS} seconds to read") from None


def _lines(output: IO[bytes], name: object) -> Iterator[dict[str, Any]]:
    """The last line is read first: a file that is refused halfway gives nothing."""
    last = json.loads(_last_line(output) or b"{}")
    if "refused" in last:
        raise BadFile(name, last["refused"], last["where"])
    if "end" not in last:
        raise BadFile(name, "the process that read it ended too early")
    output.seek(0)
    for line in output:
        if (value := json.loads(line)) != last:
            yield value


def _last_line(output: IO[bytes]) -> bytes:
    """It is short."""
    size = output.seek(0, 2)
    output.seek(max(0, size - 2**14))
    return (output.read().splitlines() or [b""])[-1]


def _explain_exit(code: int, errors: IO[bytes]) -> str:
    if code == -signal.SIGXCPU or code == -signal.SIGKILL:
        return "needs more time or memory than a checkpoint may take"
    errors.seek(max(0, errors.seek(0, 2) - 4096))
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return f"the process that read it ended with code {code}: {lines[-1] if lines else 'it said nothing'}"
