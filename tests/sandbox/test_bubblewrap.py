"""What the usual way of calling bubblewrap gets wrong."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from rl.base.errors import SandboxUnavailable
from rl.sandbox import Limits, Result, bubblewrap, run
from rl.sandbox.backends import why_unavailable
from rl.sandbox.contract import MIB, UNPRIVILEGED_ID
from tests.missing import missing
from tests.waiting import until

pytestmark = pytest.mark.process


LIMITS = Limits(wall_seconds=10, memory_bytes=64 * MIB, processes=8)


@pytest.fixture(autouse=True)
def _bubblewrap():
    if why_unavailable("bubblewrap"):
        missing("bubblewrap", "bubblewrap")


def box(code: str, language: str = "python", **limits) -> Result:
    return run(code, language, "", replace(LIMITS, **limits), backend="bubblewrap")


def test_nothing_is_started_as_root(monkeypatch):
    started = []
    spawn = subprocess.Popen

    def spy(command, **options):
        process = spawn(command, **options)
        started.append((process, options))
        return process

    monkeypatch.setattr(bubblewrap.subprocess, "Popen", spy)
    seen: list[str] = []

    def look() -> None:
        until(lambda: started and len([*bubblewrap.watching.descendants(started[0][0].pid)]) >= 3)
        time.sleep(0.3)
        for pid in bubblewrap.watching.descendants(started[0][0].pid):
            seen.extend(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line[:4] == "Uid:")

    watcher = threading.Thread(target=look)
    watcher.start()
    box("import time; time.sleep(1.5)")
    watcher.join()
    assert len(seen) >= 3
    wanted = os.geteuid() or UNPRIVILEGED_ID
    assert {number for line in seen for number in line.split()[1:]} == {str(wanted)}
    assert not started[0][1].keys() & {"preexec_fn", "user", "group", "extra_groups"}
    assert started[0][1]["start_new_session"] is True


def test_what_bwrap_makes_itself_is_read_only_or_sized():
    mounts = [line.split() for line in box("cat /proc/mounts", "shell", disk_bytes=3 * MIB).stdout.splitlines()]
    writable = {target: options for _, target, _, options, *_ in mounts if "rw" in options.split(",")}
    assert set(writable) == {"/tmp", "/dev/null", "/dev/full", "/dev/random", "/dev/urandom"}
    assert "size=3072k" in writable["/tmp"]
    assert all("nosuid" in options for _, _, _, options, *_ in mounts)


def test_tmp_and_shared_memory_share_one_size():
    code = "import os\nprint(os.path.realpath('/dev/shm'))\nopen('/dev/shm/x', 'wb').write(bytes(MB))"
    result = box(code.replace("MB", str(2 * MIB)), disk_bytes=MIB)
    assert result.stdout == "/tmp\n"
    assert "No space left on device" in result.stderr


def test_boxes_do_not_share_the_limit_of_processes():
    """A limit set outside counts the user's processes in all boxes: the second box could not even start."""
    code = "import os, time\nfor _ in range(6): os.fork() or (time.sleep(0.5), os._exit(0))\nprint('all')"
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: box(code), range(4)))
    assert [result.stdout for result in results] == ["all\n"] * 4


def test_the_tree_is_gone_when_the_run_returns():
    for _ in range(10):
        token = f"7.{time.monotonic_ns()}"
        box(f"sleep {token} & setsid sleep {token} & (trap '' TERM; sleep {token}) & sleep 0.02", "shell")
        assert not left(token)


def test_the_tree_ends_with_the_process_that_started_it():
    token = f"9.{time.monotonic_ns()}"
    code = f"from rl.sandbox import run; run('sleep {token}', 'shell', backend='bubblewrap')"
    root = Path(bubblewrap.__file__).resolve().parents[2]
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=root)
    until(lambda: left(token))
    parent.kill()
    parent.wait()
    until(lambda: not left(token))


def test_a_box_whose_maker_was_killed_is_ended_by_the_next(monkeypatch):
    """bwrap is killed, here for want of a reader, before it lets its child go on; the child waits for it for ever."""
    mark = "ratchet-box-of-this-test"  # so that no box of another test, at the same time, ends it
    monkeypatch.setattr(bubblewrap, "_HOSTNAME", mark)
    read, write = os.pipe()
    os.close(read)
    command = [
        "bwrap",
        "--unshare-user",
        "--unshare-pid",
        "--unshare-uts",
        "--hostname",
        mark,
        "--ro-bind",
        "/",
        "/",
    ]
    maker = [*bubblewrap._as_nobody(), *command, "--json-status-fd", str(write), "--", "sleep", "60"]
    assert subprocess.run(maker, pass_fds=(write,), check=False).returncode == -signal.SIGPIPE
    os.close(write)
    assert len(boxes()) == 1
    bubblewrap.end_orphans()
    until(lambda: not boxes())


def test_the_boxes_of_others_are_left_alone():
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(box, "sleep 0.5; echo whole", "shell")
        while not result.done():
            bubblewrap.end_orphans()
    assert result.result().stdout == "whole\n"


def boxes() -> list[int]:
    """The first processes of boxes that nobody keeps."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if bubblewrap._is_orphan(int(path.parent.name)):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def left(token: str) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"sleep") and token.encode() in words:
            found.append(path)
    return found


def test_the_first_process_of_the_box_cannot_be_harmed_from_inside():
    """It says how the program ended."""
    code = """
import os, signal
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV):
    try:
        os.kill(1, number)
    except OSError:
        pass
for name in ("mem", "fd/3"):
    try:
        os.open(f"/proc/1/{name}", os.O_RDWR)
        print(name)
    except OSError:
        pass
print(len(os.listdir("/proc/self/fd")))
exit(5)
"""
    result = box(code)
    assert (result.stdout, result.exit) == ("4\n", 5)


def test_a_parent_with_much_memory_starts_a_box_as_quickly(monkeypatch):
    """By vfork: copying the page tables of 512 MB takes 45 ms, of 3 GB a quarter of a second. Python forks where something
    of its own has to run in the child."""
    started = []

    class Seen(subprocess.Popen):
        def __init__(self, *arguments, **options) -> None:
            started.append(options.keys() & {"preexec_fn", "user", "group", "extra_groups"})
            super().__init__(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", Seen)
    assert box("print(1)").stdout == "1\n"
    assert subprocess._USE_VFORK
    assert started == [set()]


def test_a_bwrap_that_cannot_make_the_box_is_no_result_of_the_program(monkeypatch, tmp_path):
    for name, script in (("old", "echo bwrap: Unknown option --size >&2; exit 1"), ("dead", "kill -KILL $$")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bwrap").chmod(0o755)
        tmp_path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        monkeypatch.setattr(bubblewrap, "_as_nobody", list)
        with pytest.raises(SandboxUnavailable, match="could not make the box") as refused:
            bubblewrap.Bubblewrap().run("print(1)", "python", "", LIMITS)
        assert "Ubuntu 24.04" in str(refused.value)


def test_a_box_that_hangs_while_it_is_made_is_ended(monkeypatch, tmp_path):
    token = f"8.{time.monotonic_ns()}"
    (tmp_path / "bwrap").write_text(f"#!/bin/sh\nsleep {token} & exec sleep {token}\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(bubblewrap, "_as_nobody", list)
    monkeypatch.setattr(bubblewrap, "_START_SECONDS", 0.3)
    with pytest.raises(SandboxUnavailable, match="did not start within"):
        bubblewrap.Bubblewrap().run("print(1)", "python", "", LIMITS)
    until(lambda: not left(token))


def test_exit_codes_above_128_are_signals_as_in_a_shell():
    assert box("exit 130", "shell").exit == -signal.SIGINT
    assert box("exit 255", "shell").exit == 255
