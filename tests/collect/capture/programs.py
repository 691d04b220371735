"""Agents in processes of their own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HEAD = """
import os, sys, time
from rl.collect import TraceCollector, hook_into_agent
"""


def start(program: str, **environment: str) -> subprocess.Popen[str]:
    """``program`` finds TraceCollector and hook_into_agent imported."""
    code = HEAD + textwrap.dedent(program)
    return subprocess.Popen(
        [sys.executable, "-S", "-c", code],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    process = start(program, **environment)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return subprocess.CompletedProcess(process.args, 0, output, errors)
