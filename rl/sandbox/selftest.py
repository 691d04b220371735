"""Does a backend hold on this machine? A program must run, and must find shut what a sandbox keeps shut.

The second half is the positive control: a box that only looks like one, as on a kernel that lacks a part, is of no use.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from rl.base.errors import SandboxUnavailable
from rl.sandbox.contract import ENVIRONMENT, MIB, Backend, Limits

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
