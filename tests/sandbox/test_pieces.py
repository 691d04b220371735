"""The parts that the backends share: the filter, the interpreters, the watch, the tree."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rl.base.errors import SandboxUnavailable
from rl.sandbox import programs, seccomp, watching
from rl.sandbox.contract import Limits
from rl.sandbox.watching import Stream, Watch


def test_the_filter_is_whole_instructions_of_a_sensible_number():
    code = seccomp.program()
    assert len(code) % 8 == 0
    assert 100 < len(code) // 8 < 4096  # BPF_MAXINSNS


def test_the_system_python_is_used_where_the_own_one_is_out_of_reach(monkeypatch, tmp_path):
    hidden = tmp_path / "hidden" / "bin"
    hidden.mkdir(parents=True)
    own = hidden / f"python{sys.version_info.major}.{sys.version_info.minor}"
    own.write_text("")
    own.chmod(0o755)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "hidden"))
    monkeypatch.setattr(sys, "base_exec_prefix", str(tmp_path / "hidden"))
    monkeypatch.setattr(programs, "is_reachable", lambda path: path == Path("/usr/bin/python3"))
    programs._python.cache_clear()
    try:
        found = programs.interpreter("python")
        assert (found.command[0], found.folders) == ("/usr/bin/python3", ())
        monkeypatch.setattr(programs, "is_reachable", lambda path: True)
        programs._python.cache_clear()
        found = programs.interpreter("python")
        assert found.command[0] == str(own)
        assert found.folders == (str(tmp_path / "hidden/bin"), str(tmp_path / "hidden/lib"))
        monkeypatch.setattr(programs, "is_reachable", lambda path: False)
        programs._python.cache_clear()
        with pytest.raises(SandboxUnavailable, match="apt install python3"):
            programs.interpreter("python")
    finally:
        programs._python.cache_clear()


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone needs to ask what others may do")
def test_root_asks_what_an_unprivileged_user_can_reach(tmp_path):
    program = tmp_path / "program"
    program.write_text("")
    program.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    assert programs.is_reachable(program)
    program.chmod(0o700)
    assert not programs.is_reachable(program)
    program.chmod(0o755)
    tmp_path.chmod(0o700)
    assert not programs.is_reachable(program)


@pytest.fixture
def family():
    """A process with two children, all waiting."""
    start = "import os, time\nfor _ in range(2): os.fork() or time.sleep(60)\n"
    code = f"{start}sum(range(10**6))\nprint(1, flush=True)\ntime.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.process
def test_a_tree_is_counted_with_all_its_processes(family):
    used = watching.usage(family.pid)
    assert len(used.pids) == 3
    assert used.memory_bytes > 3 * 2**20
    assert used.cpu_seconds > 0
    assert watching.usage(2**22 + 1) == watching.ResourceUsage()


@pytest.mark.process
def test_a_process_is_ended_and_waited_for(family):
    pidfd = os.pidfd_open(family.pid)
    try:
        assert watching.end(pidfd, 5)
        assert watching.end(pidfd, 5), "it may be gone already"
    finally:
        os.close(pidfd)


def follow(limits: Limits, writes: bytes, usage: watching.ResourceUsage, files: int) -> Watch:
    """A program that writes, and goes on until it is killed."""
    read, write = os.pipe()
    until, program = os.pipe()
    os.write(write, writes)

    def kill() -> None:
        for descriptor in (write, program):
            os.close(descriptor)
        watch.kill = lambda: None

    watch = Watch(limits, kill=kill, look=lambda: (usage, files))
    watch.follow(Stream(read, limits.output_bytes), until=Stream(until, 10))
    os.close(read)
    os.close(until)
    return watch


@pytest.mark.parametrize(
    ("usage", "files", "writes", "stopped"),
    [
        (watching.ResourceUsage(memory_bytes=11), 0, b"", "memory"),
        (watching.ResourceUsage(cpu_seconds=11), 0, b"", "cpu"),
        (watching.ResourceUsage(), 11, b"", "files"),
        (watching.ResourceUsage(), 0, b"x" * 11, "output"),
        (watching.ResourceUsage(10, 10.0), 10, b"x" * 10, "wall"),
    ],
)
def test_what_goes_beyond_a_limit_is_stopped(usage: watching.ResourceUsage, files: int, writes: bytes, stopped: str):
    limits = Limits(wall_seconds=0.3, cpu_seconds=10, memory_bytes=10, files=10, output_bytes=10)
    assert follow(limits, writes, usage, files).stopped == stopped


def looks(*cpu_seconds: float) -> Watch:
    """A watch that has looked as often as it is told to, at a tree of so much CPU time."""
    seen = iter(cpu_seconds)
    watch = Watch(
        Limits(cpu_seconds=10), kill=lambda: None, look=lambda: (watching.ResourceUsage(cpu_seconds=next(seen)), 0)
    )
    while not watch.stopped:
        try:
            watch._look()
        except StopIteration:
            break
    return watch


def test_cpu_time_of_children_that_nobody_waits_for_is_not_forgotten():
    assert looks(0, 4, 0.1, 0.1, 4, 0.2, 0.2, 2.5).stopped == "cpu"


def test_a_child_that_ends_during_a_look_does_not_count_twice():
    """It is gone from the tree, and not yet in its parent's sum: the second look finds it there."""
    assert looks(0, 6, 0.1, 6.1, 6.2, 9.9).stopped == ""
