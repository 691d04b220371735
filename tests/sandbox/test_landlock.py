"""What is special about boxes without namespaces: the program could name every process and path of its user."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rl.base.errors import SandboxUnavailable
from rl.sandbox import landlock, programs
from rl.sandbox.backends import why_unavailable
from rl.sandbox.contract import MIB, UNPRIVILEGED_ID, Limits, Result
from rl.sandbox.landlock import Landlock
from tests.missing import missing
from tests.sandbox.conftest import children, is_alive
from tests.waiting import until

pytestmark = pytest.mark.process


ROOT = Path(__file__).resolve().parents[2]
SMALL = Limits(wall_seconds=5, memory_bytes=64 * MIB, processes=16, file_bytes=4 * MIB, disk_bytes=8 * MIB, files=200)


@pytest.fixture(autouse=True)
def _available() -> None:
    if complaint := why_unavailable("landlock"):
        missing(f"the sandbox backend landlock ({complaint})")


def box(code: str, language: str = "python", limits: Limits = SMALL) -> Result:
    return Landlock().run(code, language, "", limits)


def as_anybody(script: str) -> subprocess.CompletedProcess[str]:
    """The script, as a user who is not root: then the program has the same user as whoever runs it."""
    user = str(UNPRIVILEGED_ID)
    drop = [] if os.geteuid() else ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--"]
    command = [*drop, programs.interpreter("python").command[0], "-c", script]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment, timeout=60)


PRELUDE = """
import os, pathlib, resource, subprocess, tempfile
from rl.sandbox.contract import Limits
from rl.sandbox.landlock import Landlock
run = lambda code, language="python": Landlock().run(code, language, "", Limits(wall_seconds=5))
victim = subprocess.Popen(["sleep", "60"])
"""


def test_the_end_of_a_run_kills_what_it_left_and_nothing_else_of_the_same_user():
    done = as_anybody(
        PRELUDE
        + """
result = run("setsid sleep 30.25 & (trap '' TERM HUP; setsid sleep 30.25) & kill -9 -1; echo $?", "shell")
print(victim.poll(), os.popen("pgrep -c -u $(id -u) -x -f 'sleep 30.25'").read().strip())
victim.kill()
"""
    )
    assert done.stdout == "None 0\n", done.stderr


def test_files_and_processes_of_the_same_user_cannot_be_changed():
    done = as_anybody(
        PRELUDE
        + """
with tempfile.NamedTemporaryFile() as file:
    os.chmod(file.name, 0o640)
    before = os.stat(file.name)
    result = run(f'''
import os, resource
def tried(what, call):
    try:
        call()
        print("done", what)
    except OSError as error:
        pass
pid, path = {victim.pid}, {file.name!r}
tried("chmod", lambda: os.chmod(path, 0))
tried("chown", lambda: os.chown(path, os.getuid(), os.getgid()))
tried("fchmod", lambda: os.fchmod(os.open("/usr/bin/env", os.O_RDONLY), 0))
tried("prlimit", lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0)))
tried("nice", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
tried("nice of the user", lambda: os.setpriority(os.PRIO_USER, 0, 19))
tried("affinity", lambda: os.sched_setaffinity(pid, [0]))
tried("scheduler", lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)))
tried("signal", lambda: os.kill(pid, 0))
os.utime(path, (1, 1))
print("end")
''')
    after = os.stat(file.name)
    print((before.st_mode, before.st_mtime) == (after.st_mode, after.st_mtime), victim.poll())
    print(os.getpriority(0, victim.pid) == os.nice(0))
print(result.stdout, result.stderr)
victim.kill()
"""
    )
    assert done.stdout.split() == ["True", "None", "True", "end"], done.stderr


def test_as_root_every_program_has_a_user_of_its_own():
    if os.geteuid():
        pytest.skip("needs root")
    users = {box("import os; print(*os.getresuid(), *os.getresgid(), os.getgroups())").stdout for _ in range(2)}
    assert len(users) == 2
    assert not any(user.startswith("0 ") for user in users)


HIDDEN = {
    "held open": """
import os, time
held = []
for number in range(6):
    file = open(str(number), "wb")
    file.write(bytes(2 << 20))
    os.unlink(str(number))
    held.append(file)
time.sleep(3)
""",
    "never named": """
import tempfile, time
held = [tempfile.TemporaryFile(dir=".") for _ in range(6)]
for file in held:
    file.write(bytes(2 << 20)), file.flush()
time.sleep(3)
""",
    "mapped": """
import mmap, os, time
held = []
for number in range(6):
    with open("mapped", "w+b") as file:
        file.write(bytes(2 << 20)), file.flush()
        held.append(mmap.mmap(file.fileno(), 4096))
    os.unlink("mapped")
time.sleep(3)
""",
    "of a process that may not be looked into": """
import ctypes, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
time.sleep(3)
""",
    "below a path that is too long": """
import os, time
for _ in range(100):
    os.mkdir("x" * 200)
    os.chdir("x" * 200)
time.sleep(3)
""",
}


@pytest.mark.parametrize("how", HIDDEN)
def test_files_that_are_hidden_count(how: str):
    if "looked into" in how and not os.geteuid():
        pytest.skip("root can look into every process")
    result = box(HIDDEN[how])
    assert (result.stopped, result.exit) == ("files", -9), result.stderr
    assert result.duration < 2.5


def test_the_standard_input_does_not_count_as_a_file_of_the_program():
    text = "x" * (9 * MIB)
    code = "import sys, time\ntime.sleep(0.3)\nprint(len(sys.stdin.read()))"
    assert Landlock().run(code, "python", text, replace(SMALL, memory_bytes=256 * MIB)).stdout == f"{len(text)}\n"


def test_too_many_files_end_the_program():
    result = box("import os, time\nfor n in range(250): os.mkdir(str(n))\ntime.sleep(3)")
    assert (result.stopped, result.exit) == ("files", -9)


def test_programs_use_a_folder_of_their_own_that_goes_away():
    result = box("""
import os, tempfile
assert os.getcwd() == os.environ["HOME"] == tempfile.gettempdir()
for depth in range(150):
    os.mkdir("d"), os.chdir("d")
os.mkdir("shut", 0), open("file", "w").close(), os.symlink("/", "link")
os.rename("file", "renamed"), os.link("renamed", "linked")
print(os.environ["HOME"])
""")
    assert result.exit == 0, result.stderr
    assert not Path(result.stdout.strip()).parent.exists()


def test_a_folder_of_any_depth_is_removed(tmp_path: Path):
    box_folder = tmp_path / "box"
    box_folder.mkdir()
    here = os.open(box_folder, os.O_RDONLY)
    for depth in range(400):  # more than a path can hold
        os.mkdir("deeper-and-deeper", 0o700, dir_fd=here)
        os.close(os.open(f"file-{depth}", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        below = os.open("deeper-and-deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    landlock.remove_folder(box_folder)
    assert not box_folder.exists()


def test_touch_works_though_times_cannot_be_set():
    assert box("touch new && ls", "shell").stdout == "new\n"


def test_orphans_do_not_use_up_the_limit_of_processes():
    code = """
import os, time
for _ in range(60):
    if os.fork() == 0:
        os.fork()
        os._exit(0)
    os.wait()
    time.sleep(0.01)
print("all")
"""
    assert box(code).stdout == "all\n"


def test_it_ends_with_its_parent_whatever_runs_in_it():
    script = """
from rl.sandbox.contract import Limits
from rl.sandbox.landlock import Landlock
Landlock().run("import os, time\\nos.fork() or os.setsid()\\ntime.sleep(60)", "python", "", Limits(60))
"""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # that all users reach
        Path(folder).chmod(0o755)
        with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "TMPDIR": folder}) as parent:
            while len(tree := descendants(parent.pid)) < 3:
                time.sleep(0.02)
            parent.kill()
        until(lambda: not any(map(is_alive, tree)))
        [left] = Path(folder).iterdir()  # nobody is there to remove it
        landlock.remove_folder(left)


def test_a_killed_supervisor_is_no_result():
    with pytest.raises(SandboxUnavailable, match="its supervisor was killed"):
        run_and_kill_the_supervisor()


def run_and_kill_the_supervisor() -> None:
    before = descendants(os.getpid())

    class Killed(landlock._Box):
        def follow(self) -> None:
            os.kill(self._process.pid, signal.SIGKILL)
            super().follow()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landlock, "_Box", Killed)
        try:
            box("import time; time.sleep(60)")
        finally:
            assert descendants(os.getpid()) == before


def test_an_older_kernel_is_told_what_is_missing(monkeypatch):
    monkeypatch.setattr(landlock, "_ABI_WITH_SCOPES", 99)
    assert "Linux 6.12" in Landlock().why_unavailable()


def descendants(pid: int) -> list[int]:
    return [found for child in children(pid) for found in (child, *descendants(child))]
