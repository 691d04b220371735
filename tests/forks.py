"""``--forks 3``: tests are collected once and run in three forks of the process that did, each of which takes a file when it
has time.

Collecting is a quarter of the work of a whole run, and pytest-xdist does it again in each of its processes. A fork has a
directory and a database of its own. One that dies fails the test that it was running, and another goes on behind it.
"""

import atexit
import os
import signal
import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest
from django.conf import settings

READY = "ready"
"""What a fork says when it can take another file."""

MOST_DEAD = 10
"""Forks that die end the run: what kills each of them is no fault of one test."""


@dataclass
class Fork:
    """``todo``: the tests of its file that have not ended, by their index; the first is the one that runs."""

    name: str
    pid: int
    link: Connection
    todo: deque[int] = field(default_factory=deque)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, metavar="N", help="run the tests in N forks (tests/forks.py)")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    number = session.config.getoption("--forks")
    if not number or session.testsfailed or session.config.option.collectonly:
        return None
    loop = Loop(session)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its forks end with it
    try:
        loop.run(number)
    finally:
        loop.stop()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


class Loop:
    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        of_file: dict[Path, deque[int]] = {}
        for index, item in enumerate(session.items):
            of_file.setdefault(item.path, deque()).append(index)
        self.files = deque(of_file.values())
        self.forks: dict[Any, Fork] = {}
        self.dead = 0

    def run(self, number: int) -> None:
        for name in range(min(number, len(self.files))):
            self.start(f"gw{name}")
        while self.forks and not (self.session.shouldfail or self.session.shouldstop):
            for link in wait(list(self.forks)):
                self.hear(self.forks[link])

    def start(self, name: str) -> None:
        """``name`` is as pytest-xdist and pytest-django have them: it ends the name of the database."""
        ours, its = Pipe()
        if (pid := os.fork()) == 0:
            ours.close()
            _be_fork(self.session, name, its)
        its.close()
        self.forks[ours] = Fork(name, pid, ours)

    def hear(self, fork: Fork) -> None:
        try:
            self.answer(fork, fork.link.recv())
        except (EOFError, ConnectionError):  # it died before it spoke, or before it was answered
            self.bury(fork)

    def answer(self, fork: Fork, message: Any) -> None:
        if message == READY:
            more = self.files.popleft() if self.files else deque()
            fork.todo.extend(more)
            fork.link.send(list(more))
        elif isinstance(message, int):
            fork.todo.remove(message)
        else:
            config = self.session.config
            report = config.hook.pytest_report_from_serializable(config=config, data=message)
            config.hook.pytest_runtest_logreport(report=report)

    def bury(self, fork: Fork) -> None:
        _, status = os.waitpid(fork.pid, 0)
        del self.forks[fork.link]
        if not fork.todo:
            if status:
                raise self.session.Interrupted(f"a fork ended between two tests: {os.waitstatus_to_exitcode(status)}")
            return
        self.fail(fork.todo.popleft(), status)
        self.dead += 1
        if self.dead == MOST_DEAD:
            raise self.session.Interrupted(f"{MOST_DEAD} forks died")
        if fork.todo:
            self.files.appendleft(fork.todo)
        if self.files:
            self.start(fork.name)

    def fail(self, index: int, status: int) -> None:
        item = self.session.items[index]
        message = f"the process of this test ended: exit code {os.waitstatus_to_exitcode(status)}"
        report = pytest.TestReport(
            item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", message, "call"
        )
        self.session.config.hook.pytest_runtest_logreport(report=report)

    def stop(self) -> None:
        for fork in self.forks.values():
            with suppress(ProcessLookupError):
                os.kill(fork.pid, signal.SIGTERM)
            os.waitpid(fork.pid, 0)


def _be_fork(session: pytest.Session, name: str, link: Connection) -> NoReturn:
    code = 1
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        _settle(session.config, name)
        session.config.pluginmanager.register(Reporter(session.config, link))
        _run_files(session, link)
        code = 0
    except BaseException:  # of the session's, which is the first process's: nothing of this one may go on in there
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        os._exit(code)


def _settle(config: pytest.Config, name: str) -> None:
    """What a process has that imports tests/settings.py under this name, and output of its own."""
    os.environ["PYTEST_XDIST_WORKER"] = name
    config.workerinput = {"workerid": name}  # type: ignore[attr-defined]  # pytest-django reads it
    _use_directory(Path(os.environ["RATCHET_TEST_ROOT"]), name)
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    config.get_terminal_writer()._file = Path(os.devnull).open("w")  # noqa: SIM115  for as long as it lives


def _use_directory(shared: Path, name: str) -> None:
    for folder in ("data", "static"):
        (shared / name / folder).mkdir(parents=True, exist_ok=True)
    for setting in ("DATA_DIR", "BACKUP_DIR", "ENVIRONMENTS_DIR", "PROMPT_TEMPLATES_DIR", "STATIC_ROOT"):
        setattr(settings, setting, shared / name / getattr(settings, setting).relative_to(shared))
    os.environ["DATA_DIR"] = str(settings.DATA_DIR)
    database = settings.DATABASES["default"]
    for of_name in (database, database["TEST"]) if database["ENGINE"].endswith("sqlite3") else ():
        of_name["NAME"] = str(shared / name / Path(of_name["NAME"]).relative_to(shared))


def _run_files(session: pytest.Session, link: Connection) -> None:
    """After the last test of a file only what is the session's is kept: which file comes next is asked when there is time
    for it."""
    while file := _next_file(link):
        for index, following in zip_longest(file, file[1:]):
            item, next_item = session.items[index], session if following is None else session.items[following]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            link.send(index)
    session._setupstate.teardown_exact(None)


def _next_file(link: Connection) -> Sequence[int]:
    link.send(READY)
    return link.recv()


@dataclass(eq=False)
class Reporter:
    config: pytest.Config
    link: Connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.link.send(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))
