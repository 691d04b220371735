"""What is special about boxes that are forked from one process: it comes and goes, and no program may notice another."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from rl.base.errors import SandboxUnavailable
from rl.sandbox import backends, programs, zygote
from rl.sandbox.backends import why_unavailable
from rl.sandbox.contract import MIB, Limits, Result
from rl.sandbox.zygote import Zygote
from tests.missing import missing
from tests.sandbox.conftest import children, is_alive
from tests.waiting import until

pytestmark = pytest.mark.process


ROOT = Path(__file__).resolve().parents[2]
SMALL = Limits(wall_seconds=10, memory_bytes=64 * MIB, processes=16)


@pytest.fixture
def own() -> Iterator[Zygote]:
    """One that no other test uses."""
    if complaint := why_unavailable("zygote"):
        missing(f"the sandbox backend zygote ({complaint})", "bubblewrap libseccomp2")
    backend = Zygote()
    yield backend
    backend.close()


def box(backend: Zygote, code: str, language: str = "python", limits: Limits = SMALL, stdin: str = "") -> Result:
    return backend.run(code, language, stdin, limits)


def pid_of(backend: Zygote) -> int:
    return backend._servers[-1]._process.pid


def test_a_killed_zygote_is_started_again(own: Zygote):
    assert box(own, "print(1)").stdout == "1\n"
    before = pid_of(own)
    os.kill(before, signal.SIGKILL)
    assert box(own, "print(2)").stdout == "2\n"
    assert pid_of(own) != before


def test_a_program_whose_zygote_is_killed_under_it_is_run_again(own: Zygote):
    box(own, "")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(box, own, "import time; print('start', flush=True); time.sleep(0.5); print('end')")
        while not (boxes := children(pid_of(own))):
            time.sleep(0.005)
        time.sleep(0.1)
        os.kill(pid_of(own), signal.SIGKILL)
        until(lambda: not any(map(is_alive, boxes)))
        assert (running.result().stdout, running.result().exit) == ("start\nend\n", 0)


def test_a_zygote_that_hangs_is_replaced(own: Zygote, monkeypatch):
    monkeypatch.setattr(zygote, "_START_SECONDS", 1.5)
    box(own, "")
    before = pid_of(own)
    os.kill(before, signal.SIGSTOP)
    assert box(own, "print(1)").stdout == "1\n"
    assert pid_of(own) != before


def test_it_gives_up_when_something_keeps_killing_it(own: Zygote, monkeypatch):
    monkeypatch.setattr(zygote._Box, "follow", lambda box: False)
    with pytest.raises(SandboxUnavailable, match="keeps killing the zygote"):
        box(own, "")


SPOIL = """
import builtins, json, os, random, sys
random.seed(1)
json.loads = builtins.abs = lambda *_: 'spoiled'
sys.path.insert(0, '/spoiled')
sys.modules['spoiled'] = json
os.environ['SPOILED'] = 'yes'
os.umask(0)
os.makedirs('/tmp/a/b')
open('/tmp/left', 'w').write('x')
open('/dev/shm/left', 'w').write('x')
spoiled = True
"""
LOOK = """
import json, os, random, sys
print(json.loads('[1]'), abs(-3), '/spoiled' in sys.path, 'spoiled' in sys.modules, 'SPOILED' in os.environ, os.umask(0),
      os.listdir('/tmp'), os.listdir('/dev/shm'), 'spoiled' in globals())
"""


def test_the_next_program_sees_nothing_of_the_one_before(own: Zygote):
    assert box(own, SPOIL).exit == 0
    assert box(own, LOOK).stdout == "[1] 3 False False False 18 [] [] False\n"


def test_every_program_draws_other_random_numbers(own: Zygote):
    code = "import random, tempfile, uuid; print(random.random(), random.random(), tempfile.mktemp(), uuid.uuid4())"
    drawn = [box(own, code).stdout for _ in range(5)]
    assert len(set(drawn)) == 5


def test_a_zygote_is_replaced_after_its_share_of_programs_and_with_it_the_seed_of_hashes(own: Zygote, monkeypatch):
    monkeypatch.setattr(zygote, "JOBS_PER_ZYGOTE", 2)
    hashes = [box(own, "print(hash('a'))").stdout for _ in range(6)]
    assert len(set(hashes)) == 3
    assert children(os.getpid()).count(pid_of(own)) <= 1


def test_programs_at_once_get_their_own_answers_while_zygotes_are_replaced(own: Zygote, monkeypatch):
    monkeypatch.setattr(zygote, "JOBS_PER_ZYGOTE", 5)
    before = set(threading.enumerate())
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: box(own, "print(int(input()) ** 2)", stdin=str(n)), range(32)))
    assert [result.stdout for result in results] == [f"{n * n}\n" for n in range(32)]
    assert not set(threading.enumerate()) - before, "threads of tests before this one may end meanwhile"
    own.close()
    zygotes = [pid for pid in children(os.getpid()) if b"zygote_child" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert shared_zygotes() >= set(zygotes)


def shared_zygotes() -> set[int]:
    """Of the backend that other tests of this process use, if any."""
    made = backends._made.get("zygote")
    return {server._process.pid for server in made._servers} if isinstance(made, Zygote) else set()


def test_a_forked_process_has_a_zygote_of_its_own(own: Zygote):
    box(own, "")
    before = pid_of(own)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            answer = box(own, "print('of the child')").stdout.strip()
            os.write(write, f"{answer} {pid_of(own)}".encode())
            own.close()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer, _, childs = pipe.read().rpartition(" ")
    os.waitpid(pid, 0)
    assert answer == "of the child"
    assert int(childs) != before
    assert (box(own, "print('of the parent')").stdout, pid_of(own)) == ("of the parent\n", before)


def test_it_ends_with_its_parent_whatever_runs_in_it(own: Zygote):
    script = """
import threading, time
from rl.sandbox.contract import Limits
from rl.sandbox.zygote import Zygote
backend = Zygote()
threading.Thread(target=backend.run, args=("import os, time; os.fork(); time.sleep(60)", "python", "", Limits(60))).start()
while not backend._servers: time.sleep(0.01)
print(backend._servers[0]._process.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=ROOT) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        while not (boxes := children(server)) or not children(boxes[0]):
            time.sleep(0.01)
        tree = [server, *boxes, *children(boxes[0])]
        parent.kill()
    until(lambda: not any(map(is_alive, tree)))


def test_signals_stay_in_the_box(own: Zygote):
    box(own, "")
    before = pid_of(own)
    code = """
import os
for pid in (0, 1, -1, os.getppid()):
    try:
        os.kill(pid, 0 if pid in (0, 1) else 9)
    except OSError:
        pass
"""
    box(own, code)
    assert box(own, "import os; print(os.kill(1, 9), os.getppid())").stdout == "None 1\n"
    assert (box(own, "print(1)").stdout, pid_of(own)) == ("1\n", before)


def test_a_program_sees_nothing_of_the_zygote(own: Zygote):
    code = """
import os
print(sorted(os.listdir('/proc/self/fd')), sorted(filter(str.isdigit, os.listdir('/proc'))), os.getppid())
for name in ('mem', 'environ', 'fd', 'root', 'maps', 'ns/user'):
    try:
        open(f'/proc/1/{name}').read(1)
        print('open', name)
    except OSError:
        pass
"""
    assert box(own, code).stdout == "['0', '1', '2', '3'] ['1', '2'] 1\n"  # 3: the folder that is being listed


def test_files_are_limited_by_the_file_system_itself(own: Zygote):
    code = """
import errno, os
made = 0
try:
    while True:
        os.close(os.open(f'/tmp/{made}', os.O_CREAT | os.O_WRONLY))
        made += 1
except OSError as error:
    print(made, errno.errorcode[error.errno])
"""
    made, error = box(own, code, limits=Limits(files=100)).stdout.split()
    assert 95 <= int(made) <= 100
    assert error == "ENOSPC"


def test_memory_and_time_that_run_out_end_everything_in_the_box(own: Zygote):
    box(own, "")
    eat = """
import os
for _ in range(4):
    if os.fork() == 0:
        data = b'x' * (30 << 20)
        while True:
            pass
os.wait()
"""
    result = box(own, eat)
    assert (result.stopped, result.exit) == ("memory", -9)
    result = box(own, "sleep 60 & sleep 60", "shell", Limits(wall_seconds=0.3))
    assert (result.stopped, result.exit, result.timed_out) == ("wall", -9, True)
    assert children(pid_of(own)) == []


def test_the_zygote_keeps_nothing_of_50_programs(own: Zygote):
    box(own, "")
    server = pid_of(own)

    def held() -> tuple[int, list[int], int]:
        pages = int(Path(f"/proc/{server}/statm").read_text().split()[1])
        return len(list(Path(f"/proc/{server}/fd").iterdir())), children(server), pages // 64

    before = held()
    for number in range(50):
        box(own, f"data = {'x' * 5000!r}; raise SystemExit({number})")
    assert held() == before


PROGRAMS = {
    "exit functions": "import atexit\natexit.register(print, 'bye')\nprint('x')",
    "threads": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()\nprint('main')",
    "daemon threads": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\nprint('end')",
    "failing threads": "import threading\n"
    "thread = threading.Thread(target=lambda: 1 / 0, name='t')\nthread.start()\nthread.join()",
    "destructors": "class A:\n    def __del__(self): print('gone')\none = A()\ntwo = A()\ntwo.me = two",
    "unflushed files": "file = open(1, 'w', closefd=False)\nfile.write('unflushed')",
    "generators": "def g():\n    try: yield\n    finally: print('closed')\nrunning = g()\nnext(running)",
    "finalizers": "import weakref\nclass A: pass\none = A()\nweakref.finalize(one, print, 'finalized')",
    "exit with words": "import sys\nsys.exit('oops')",
    "exit with a large number": "raise SystemExit(-1)",
    "exit with a truth": "raise SystemExit(True)",
    "uncaught": "def f():\n    return 1 / 0\nf()",
    "chained": "try:\n    1 / 0\nexcept Exception as error:\n    raise ValueError('x') from error",
    "groups": "raise ExceptionGroup('g', [ValueError(1), KeyError(2)])",
    "a hook": "import sys\nsys.excepthook = lambda *args: print('hook', args[0])\n1 / 0",
    "warnings": "import warnings\nwarnings.warn('careful')\nx = '\\d'",
    "no stdout": "import os\nprint('a')\nos.close(1)\nos.close(2)",
    "forks": "import os\nif os.fork() == 0:\n    print('child')\nelse:\n    os.wait()\n    print('parent')",
    "pickles": "import pickle\nclass A: pass\nprint(pickle.loads(pickle.dumps(A())).__class__)",
    "its source": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f), __file__)",
    "its interpreter": "import sys\nprint(sys.path, sys.executable, sys.flags, sys.stdin.encoding,"
    " sys.stdout.line_buffering, sys.stdout.seekable(), sys.getrecursionlimit())",
    "signals": "import signal\nprint([signal.getsignal(number) for number in (2, 13, 15, 25)])",
    "its main module": "import __main__, sys\nprint(__main__.__file__, sys.argv, __name__, __doc__, __builtins__)",
    "modules": "import sys\nprint(sorted(sys.modules))",
    "lines of stdin": "for line in __import__('sys').stdin: print(repr(line))",
    "encodings": "# -*- coding: latin-1 -*-\nprint('\u00e9', ascii('\u00e9'))",
    "a byte order mark": "\ufeffprint('bom')",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_behaves_as_in_an_interpreter_that_was_just_started(name: str, own: Zygote, tmp_path: Path):
    file = tmp_path / "program"
    file.write_text(PROGRAMS[name])
    plain = subprocess.run(
        [*programs.interpreter("python").command, str(file)],
        input=b"one\ntwo",
        capture_output=True,
        env={"LANG": "C.UTF-8"},
    )
    result = box(own, PROGRAMS[name], stdin="one\ntwo")
    assert (result.stdout, result.exit) == (plain.stdout.decode().replace(str(file), "/program"), plain.returncode)
    expected = plain.stderr.decode().replace(str(file), "/program")
    assert result.stderr == re.sub(r'.*File "<string>".*\n', "", expected)


def test_a_program_that_cannot_be_read_is_told_where(own: Zygote):
    result = box(own, "print(1)\nx = (")
    assert (result.stdout, result.exit) == ("", 1)
    assert result.stderr == "  File \"/program\", line 2\n    x = (\n        ^\nSyntaxError: '(' was never closed\n"


NO_NAMESPACES = """
echo 0 > /proc/sys/user/max_user_namespaces
exec "$0" -c "
from rl.sandbox import available, run
print(available()['zygote'])
print(run('print(6 * 7)').stdout)
"
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs util-linux")
def test_where_user_namespaces_are_forbidden_it_says_so_and_another_backend_takes_over(own: Zygote):
    if why_unavailable("landlock"):
        missing("the sandbox backend landlock")
    command = ["unshare", "--user", "--map-user=1000", "--keep-caps", "sh", "-c", NO_NAMESPACES, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert "the zygote cannot make boxes (making a user namespace" in done.stdout, done.stderr
    assert done.stdout.endswith("42\n\n")
