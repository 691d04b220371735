"""What a program gets, and what is told of it: the same with every backend."""

import gc
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.sandbox import Limits, Result, run
from rl.sandbox.backends import why_unavailable
from rl.sandbox.contract import MIB
from tests.missing import missing

pytestmark = pytest.mark.process


SMALL = Limits(wall_seconds=10, memory_bytes=64 * MIB, processes=16, output_bytes=4096)


def box(backend: str, code: str, language: str = "python", stdin: str = "", **limits) -> Result:
    return run(code, language, stdin, replace(SMALL, **limits), backend=backend)


def test_a_program_reads_prints_and_ends(backend: str):
    result = box(backend, "import sys\nprint(input()[::-1])\nprint('why', file=sys.stderr)\nexit(3)", stdin="abc\n")
    assert (result.stdout, result.stderr, result.exit) == ("cba\n", "why\n", 3)
    assert (result.timed_out, result.truncated, result.stopped) == (False, False, "")
    assert 0 < result.duration < 10


def test_a_shell_program_uses_the_systems_tools(backend: str):
    result = box(backend, "sort | tr a-z A-Z; exit 4", "shell", "b\na\n")
    assert (result.stdout, result.exit) == ("A\nB\n", 4)


def test_a_program_is_main_and_sees_what_a_program_sees(backend: str):
    code = "import sys\nprint(__name__, len(sys.argv), open(__file__).read()[:6], sorted(n for n in vars() if n[0] != '_'))"
    assert box(backend, code).stdout == "__main__ 1 import ['sys']\n"


def test_a_crash_is_a_result_with_its_traceback(backend: str):
    result = box(backend, "def f():\n    return {}['key']\nf()")
    assert (result.exit, result.stdout) == (1, "")
    assert "line 2, in f" in result.stderr
    assert result.stderr.endswith("KeyError: 'key'\n")


def test_a_signal_is_a_negative_exit_code(backend: str):
    assert box(backend, "kill -KILL $$", "shell").exit == -signal.SIGKILL
    assert box(backend, "import os; os.abort()").exit == -signal.SIGABRT


def test_usual_libraries_work(backend: str):
    code = """
import asyncio, dataclasses, json, os, pickle, sqlite3, subprocess, tempfile, threading, zoneinfo

@dataclasses.dataclass
class Point:
    x: "int"

async def later():
    process = await asyncio.create_subprocess_exec("echo", "child", stdout=-1)
    return (await process.communicate())[0]

assert asyncio.run(later()) == b"child\\n"
assert pickle.loads(pickle.dumps(Point(1))) == Point(1)
with tempfile.TemporaryFile() as file:
    file.write(b"x")
assert sqlite3.connect(os.path.join(tempfile.gettempdir(), "db")).execute("select 1").fetchone() == (1,)
assert subprocess.run(["ls", "/usr/bin/env"], capture_output=True).returncode == 0
threads = [threading.Thread(target=print) for _ in range(3)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert zoneinfo.ZoneInfo("Europe/Berlin")
print("fine")
"""
    result = box(backend, code)
    assert result.stdout.split() == ["fine"], result.stderr


@pytest.mark.parametrize("name", ["zygote", "bubblewrap"])
def test_a_pool_of_processes_works_where_shared_memory_is_the_programs_own(name: str):
    if why_unavailable(name):
        missing(f"the sandbox backend {name}", "bubblewrap libseccomp2")
    code = "import multiprocessing\nwith multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, 2]))"
    assert box(name, code).stdout == "[1, 2]\n"


def test_text_that_is_not_utf_8_becomes_replacement_characters(backend: str):
    assert box(backend, "import os; os.write(1, b'a\\xff\\n')").stdout == "a\ufffd\n"


def test_any_text_can_be_a_program(backend: str):
    assert box(backend, "print('naïve 🦜')").stdout == "naïve 🦜\n"
    assert box(backend, "print('\udc80')").stdout == "?\n"
    assert box(backend, "").exit == 0
    assert box(backend, "a\0b").exit == 1


def test_a_large_program_and_a_large_input_arrive_whole(backend: str):
    code = "import sys\nprint(len(sys.stdin.read()))\n" + "# filling\n" * 100_000
    assert box(backend, code, stdin="x" * 1_000_000).stdout == "1000000\n"


def test_a_program_that_reads_nothing_and_closes_everything_ends(backend: str):
    assert box(backend, "import os; [os.close(n) for n in range(3)]; os._exit(7)", stdin="x" * 100_000).exit == 7


def test_output_is_cut_and_the_program_ended(backend: str):
    for stream in ("stdout", "stderr"):
        result = box(backend, f"import sys\nwhile True: sys.{stream}.write('x' * 1000)")
        assert (len(getattr(result, stream)), result.truncated, result.stopped, result.exit) == (
            4096,
            True,
            "output",
            -9,
        )


def test_output_of_just_the_limit_is_whole(backend: str):
    result = box(backend, "print('x' * 4095)")
    assert (len(result.stdout), result.truncated, result.exit) == (4096, False, 0)


def test_a_program_that_waits_is_ended_when_its_time_is_up(backend: str):
    result = box(backend, "print('on', flush=True)\nimport time; time.sleep(60)", wall_seconds=0.4)
    assert (result.stdout, result.exit, result.timed_out, result.stopped) == ("on\n", -9, True, "wall")
    assert 0.4 <= result.duration < 3


def test_a_program_that_computes_is_ended_when_its_cpu_time_is_up(backend: str):
    result = box(backend, "while True: pass", cpu_seconds=1, wall_seconds=30)
    assert (result.timed_out, result.stopped) == (True, "cpu")
    assert result.exit < 0


def test_one_process_gets_no_more_memory_than_allowed(backend: str):
    result = box(backend, "x = bytearray(128 * 2**20)")
    assert result.exit == 1
    assert "MemoryError" in result.stderr


def test_a_tree_that_holds_too_much_memory_is_ended(backend: str):
    code = (
        "import os, time\n"
        "for _ in range(5): os.fork() or (bytearray(b'x') * (30 << 20), time.sleep(5), os._exit(0))\n"
        "time.sleep(5)"
    )
    result = box(backend, code)
    assert (result.exit, result.stopped, result.timed_out) == (-9, "memory", False)


def test_full_space_is_an_error_of_the_program(backend: str):
    code = "try:\n    open('big', 'wb').write(bytes(3 << 20))\nexcept OSError as error:\n    print(error.strerror)"
    assert box(backend, code, file_bytes=MIB).stdout == "File too large\n"


def test_unknown_languages_and_backends_are_refused_by_name():
    with pytest.raises(UsageError, match="python and shell, not 'perl'"):
        run("print 1", "perl")
    with pytest.raises(UsageError, match="known: zygote, bubblewrap, landlock"):
        run("print(1)", backend="chroot")


@pytest.mark.parametrize("name", ["wall_seconds", "cpu_seconds", "memory_bytes", "processes", "files", "output_bytes"])
def test_a_limit_of_nothing_is_refused(name: str):
    with pytest.raises(UsageError, match=f"{name} must be above zero, not 0"):
        Limits(**{name: 0})


def test_many_threads_run_programs_at_once_and_get_their_own_answers(backend: str):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: box(backend, "print(input())", stdin=str(n)), range(24)))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(24)]


def held(folder: Path) -> set[object]:
    """What this process has: children (zombies too), descriptors, threads, and files in a folder. What tests before this one
    have left to the collector is gone."""
    gc.collect()
    tasks = Path("/proc/self/task").iterdir()
    children = {f"child {pid}" for task in tasks for pid in (task / "children").read_text().split()}
    descriptors = {f"descriptor {path.name}" for path in Path("/proc/self/fd").iterdir()}
    return children | descriptors | {*threading.enumerate(), *folder.iterdir()}


@pytest.fixture
def _never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zygote, whose jobs are counted up: tests before this one have had some."""
    monkeypatch.setattr("rl.sandbox.zygote.JOBS_PER_ZYGOTE", 0)


@pytest.mark.usefixtures("_never_replaced")
def test_a_run_leaves_nothing_behind(backend: str, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o711)
    box(backend, "")  # a backend may keep one process for all runs
    before = held(tmp_path)
    for number in range(50):
        if number % 10 == 0:
            assert box(backend, "import os, time\nos.fork() or os.setsid()\ntime.sleep(9)", wall_seconds=0.1).timed_out
        else:
            assert box(backend, "import os; open('left', 'w'); os.fork()").exit == 0
    assert not held(tmp_path) - before, "threads of tests before this one may end meanwhile, nothing may be new"


@pytest.fixture
def _interruptible():
    """Workers of a parallel test run ignore Ctrl+C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible", "_never_replaced")
def test_an_interrupted_run_ends_its_program(backend: str, tmp_path):
    """As Ctrl+C does: an exception in the middle of the run."""
    box(backend, "")
    before = held(tmp_path)
    interruption = threading.Timer(0.4, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    interruption.start()
    with pytest.raises(KeyboardInterrupt):
        box(backend, "import time; time.sleep(600)", wall_seconds=600)
    interruption.join()
    assert not held(tmp_path) - before, "threads of tests before this one may end meanwhile, nothing may be new"
