"""Which backend runs the code, and what is said where none can."""

import os
import signal
import threading

import pytest

from rl.base.errors import SandboxUnavailable
from rl.sandbox import backends, ensure_available, run, seccomp
from rl.sandbox.contract import Limits, Result


class Box:
    """A backend that answers as the test says."""

    def __init__(self, name: str, complaint: str = "", stdout: str = "42\n", python: str = '{"open": []}') -> None:
        self.name, self.complaint, self.stdout, self.python, self.runs = name, complaint, stdout, python, 0

    def why_unavailable(self) -> str:
        return self.complaint

    def run(self, code: str, language: str, stdin: str, limits: Limits) -> Result:
        self.runs += 1
        return Result(self.python if language == "python" else self.stdout, "", 0, False, False, 0.0)


@pytest.fixture
def here(monkeypatch):
    """Says which backends there are."""

    def are(*boxes: Box) -> None:
        monkeypatch.setattr(backends, "BACKENDS", {box.name: "" for box in boxes})
        monkeypatch.setattr(backends, "_made", {box.name: box for box in boxes})
        monkeypatch.setattr(backends, "_complaints", {})

    return are


def test_the_first_that_holds_is_taken_and_tested_once(here):
    first, second, third = Box("first", "it is missing"), Box("second"), Box("third")
    here(first, second, third)
    for _ in range(3):
        run("echo", "shell")
    assert (first.runs, second.runs, third.runs) == (0, 2 + 3, 0)


def test_where_none_holds_nothing_is_run_and_each_says_why(here):
    boxes = Box("first", "install it"), Box("second", "a newer kernel is needed")
    here(*boxes)
    for refused in (ensure_available, lambda: run("print(1)")):
        with pytest.raises(SandboxUnavailable, match="first: install it; second: a newer kernel is needed"):
            refused()
    assert [box.runs for box in boxes] == [0, 0]


def test_one_that_did_not_hold_is_tried_again_after_a_while(here, monkeypatch):
    box = Box("first", "the machine is too busy")
    here(box)
    with pytest.raises(SandboxUnavailable):
        ensure_available()
    box.complaint = ""
    with pytest.raises(SandboxUnavailable):
        ensure_available()
    monkeypatch.setattr(backends, "AGAIN_SECONDS", -1.0)
    ensure_available()
    ensure_available()
    assert box.runs == 2, "one that holds is not tried again"


@pytest.mark.parametrize(
    ("box", "says"),
    [
        (Box("b", python='{"open": ["the network", "root"]}'), "found open what must be shut: the network, root"),
        (Box("b", python="Illegal instruction"), "self-test's program did not run"),
        (Box("b", stdout=""), "shell program did not run"),
    ],
)
def test_a_box_that_does_not_hold_is_not_used(here, box: Box, says: str):
    """The positive control: that something runs is not enough."""
    here(box)
    with pytest.raises(SandboxUnavailable, match=says):
        ensure_available()


@pytest.mark.process
def test_the_self_test_finds_what_is_open(monkeypatch):
    from tests.sandbox.test_attacks import without_a_box

    class Bare:
        name = "bare"

        def why_unavailable(self) -> str:
            return ""

        def run(self, code: str, language: str, stdin: str, limits: Limits) -> Result:
            return without_a_box(code, language, stdin, limits, "bare")

    monkeypatch.setenv("SECRET_OF_THE_SITE", "x")
    said = backends.complaint(Bare())
    for each in ("the environment", "the network", "memory out of sight"):
        assert each in said


def test_without_bubblewrap_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    from rl.sandbox.bubblewrap import Bubblewrap

    assert "apt install bubblewrap util-linux" in Bubblewrap().why_unavailable()


def test_without_libseccomp_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(seccomp, "_LIBRARY", "libnowhere.so.2")
    seccomp.program.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable, match="apt install libseccomp2"):
            seccomp.program()
        assert "libnowhere.so.2 is missing" in seccomp.why_unavailable()
    finally:
        seccomp.program.cache_clear()


@pytest.mark.process
def test_a_process_that_is_forked_during_the_test_of_a_backend_can_test_for_itself(here):
    here(Box("first"))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with backends._lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(10)
        os._exit(run("echo", "shell").stdout != "42\n")
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
