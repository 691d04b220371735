"""Which tests failed, for ``--retry`` of ``tests/run.py``: one line each, and whether it may be tried again."""

from pathlib import Path

import pytest

AGAIN, FINAL = "again ", "final "


class Failed:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.lines: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            is_slower = not {"process", "learn"}.isdisjoint(report.keywords)
            self.lines[report.nodeid] = AGAIN if is_slower else FINAL

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.lines[report.nodeid] = FINAL

    def pytest_sessionfinish(self) -> None:
        self.file.write_text("".join(f"{word}{name}\n" for name, word in self.lines.items()), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-failed", metavar="FILE", help="where to write the names of tests that failed")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--write-failed")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failed(Path(file)))
