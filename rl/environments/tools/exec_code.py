"""Python in the sandbox."""

from __future__ import annotations

from textwrap import dedent

from rl.environments.tools.base import BaseTool, ToolFailed
from rl.sandbox import Limits, run

MOST_SECONDS = 30.0


class ExecCode(BaseTool):
    """Python in the sandbox."""

    name = "exec_code"
    aliases = ("code_exec",)

    def __init__(self, timeout: float = 5.0) -> None:
        """Seconds of a call that names none."""
        self._timeout = timeout

    def run(self, code: str, stdin: str = "", timeout: float | None = None) -> str:
        """Runs a Python program and returns what it printed.

        Args:
            code: The whole program.
            stdin: What it reads.
            timeout: Seconds after which it is stopped.
        """
        seconds = min(timeout if timeout and timeout > 0 else self._timeout, MOST_SECONDS)
        result = run(dedent(code), "python", stdin, Limits.of_seconds(seconds))
        if result.timed_out:
            raise ToolFailed(f"the program did not end within {seconds:g} seconds", timed_out=True)
        if result.stopped:
            raise ToolFailed(f"the program reached the {result.stopped} limit")
        ending = f"exit code {result.exit}" if result.exit else ""
        return (
            "\n".join(part for part in (result.stdout.rstrip(), result.stderr.rstrip(), ending) if part)
            or "(no output)"
        )
