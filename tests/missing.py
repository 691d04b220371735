"""What some tests need and this machine has not: they are skipped, and the end of the run says how many, for want of what,
and which command brings it."""

import os
import re
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import pytest

_READ = re.compile(r"Skipped: (?P<part>.+) is missing here(?: \(Debian: (?P<packages>[a-z0-9 .-]+)\))?$", re.DOTALL)


def missing(part: str, packages: str = "") -> NoReturn:
    """Skips with the reason; where everything must be there (CI), fails instead. ``packages``: Debian's, which bring it."""
    if os.environ.get("CI"):
        pytest.fail(f"{part} is missing, and CI requires it")
    pytest.skip(f"{part} is missing here{f' (Debian: {packages})' if packages else ''}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in told(report.longrepr[2] for report in terminalreporter.getreports("skipped")):
        terminalreporter.write_line(line)


def told(reasons: Iterable[str]) -> list[str]:
    """Lines about those of the reasons that ``missing`` gave; none where nothing was missing."""
    skips = [match for reason in reasons if (match := _READ.match(reason))]
    if not skips:
        return []
    parts = Counter(skip["part"] for skip in skips)
    packages = sorted({name for skip in skips for name in (skip["packages"] or "").split()})
    install = [f"apt-get install {' '.join(packages)}"] if packages else []
    commands = " or ".join([*install, "sudo .ci/run (installs and starts everything, then runs all tests)"])
    return [
        f"{len(skips)} tests were skipped for want of what this machine has not:",
        *(f"  {number:5d}  {part}" for part, number in parts.most_common()),
        f"what brings it: {commands}",
    ]
