"""Which backend runs the code: the first of ``BACKENDS`` that holds on this machine. Each is tested once a process, and
again after a while where it did not hold: the machine may have been too busy. A program must run, and must find shut what
a sandbox keeps shut: a box that only looks like one, as on a kernel that lacks a part, is of no use."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Final, cast

from rl.base.errors import SandboxUnavailable
from rl.base.leaves import import_name
from rl.base.names import require_known
from rl.sandbox.contract import ENVIRONMENT, MIB, Backend, Limits, Result
from rl.sandbox.programs import interpreter

_PROBE: Final = """
import ctypes, json, os, socket, sys

def is_open(attempt):
    try:
        return attempt() is not False
    except Exception:
        return False

def write(path):
    with open(path, "w"):
        pass

libc = ctypes.CDLL(None)
host = json.loads(sys.stdin.read())
print(json.dumps({"ran": 6 * 7, "open": [name for name, attempt in {
    "a file of this machine": lambda: open(host["file"]).close(),
    "the environment": lambda: not set(os.environ) <= set(host["environment"]),
    "processes of this machine": lambda: host["pid"] > 99 and os.kill(host["pid"], 0),
    "the network": lambda: socket.socket(),
    "a system folder": lambda: write("/usr/lib/probe"),
    "new namespaces": lambda: libc.unshare(0x10000000) == 0,
    "memory out of sight": lambda: os.memfd_create("probe"),
    "root": lambda: os.getuid() == 0 or os.geteuid() == 0,
}.items() if is_open(attempt)]}))
"""
_LIMITS: Final = Limits(wall_seconds=30, memory_bytes=128 * MIB, processes=16)


def complaint(backend: Backend) -> str:
    """Empty when it holds."""
    host = {"file": str(Path(__file__).resolve()), "pid": os.getpid(), "environment": [*ENVIRONMENT, "PWD", "LC_CTYPE"]}
    try:
        result = backend.run(_PROBE, "python", json.dumps(host), _LIMITS)
        shell = backend.run("echo $((6 * 7))", "shell", "", _LIMITS)
    except SandboxUnavailable as error:
        return str(error)
    try:
        report = json.loads(result.stdout)
    except ValueError:
        message = result.stderr.strip()[-300:] or "it said nothing"
        return f"the self-test's program did not run (exit {result.exit}): {message}"
    if report["open"]:
        return f"the self-test found open what must be shut: {', '.join(report['open'])}"
    if shell.stdout.strip() != "42":
        return f"the self-test's shell program did not run (exit {shell.exit}): {shell.stderr.strip()[-300:]}"
    return ""


BACKENDS: Final[dict[str, str]] = {
    "zygote": "rl.sandbox.zygote.Zygote",
    "bubblewrap": "rl.sandbox.bubblewrap.Bubblewrap",
    "landlock": "rl.sandbox.landlock.Landlock",
}
"""Name to class, the best first."""

DEFAULT_LIMITS: Final = Limits()
_lock = threading.RLock()
"""A test takes seconds: a process that is forked meanwhile by another thread gets a lock of its own."""
_made: dict[str, Backend] = {}
_complaints: dict[str, str] = {}
"""Backends that were tried, with why they are of no use; empty text for a good one."""
_complained: dict[str, float] = {}
"""When, of ``time.monotonic``."""
AGAIN_SECONDS: Final = 300.0


def run(
    code: str, language: str = "python", stdin: str = "", limits: Limits = DEFAULT_LIMITS, *, backend: str | None = None
) -> Result:
    """Returns when nothing of the program is left. ``backend``: only this one.

    Raises UsageError for an unknown language or backend, SandboxUnavailable where no backend holds."""
    interpreter(language)
    return _choose(backend).run(code, language, stdin, limits)


def ensure_available() -> None:
    """Raises SandboxUnavailable, with what to install or set, where no backend holds."""
    _choose(None)


def available() -> dict[str, str]:
    """Every backend, with why it cannot be used here; empty text where it can."""
    return {name: why_unavailable(name) for name in BACKENDS}


def why_unavailable(name: str) -> str:
    """Raises UsageError that lists the known backends."""
    require_known("sandbox backend", name, BACKENDS)
    with _lock:
        if name not in _complaints or (_complaints[name] and time.monotonic() > _complained[name] + AGAIN_SECONDS):
            backend = _backend(name)
            _complaints[name] = backend.why_unavailable() or complaint(backend)
            _complained[name] = time.monotonic()
        return _complaints[name]


def _choose(name: str | None) -> Backend:
    names = (name,) if name else tuple(BACKENDS)
    for candidate in names:
        if not why_unavailable(candidate):
            return _backend(candidate)
    reasons = "; ".join(f"{candidate}: {_complaints[candidate]}" for candidate in names)
    raise SandboxUnavailable(f"untrusted code cannot be run safely on this machine. {reasons}")


def _backend(name: str) -> Backend:
    with _lock:
        if name not in _made:
            _made[name] = cast("Backend", import_name(BACKENDS[name])())
        return _made[name]


def _forget_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forget_lock)
