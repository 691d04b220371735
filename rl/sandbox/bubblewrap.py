"""A fresh set of namespaces for each program, made by bubblewrap (``bwrap``), 0.7 or newer.

Differs from the usual snippet where that one loses. Nothing is started as root. The file systems that bwrap makes itself
are sized or read-only. The process limit is set inside the new user namespace, or all boxes would share it. The end is a
SIGKILL to the box's first process and a wait for it, not ``--die-with-parent`` alone, which comes later or never."""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from rl.base.errors import SandboxUnavailable
from rl.sandbox import programs, seccomp, watching
from rl.sandbox.contract import ENVIRONMENT, UNPRIVILEGED_ID, Limits, Result
from rl.sandbox.plumbing import make_sealed_file, pipe, resource_limits, result
from rl.sandbox.watching import Stream, Watch

_PROGRAM: Final = "/program"
_HOSTNAME: Final = "ratchet-box"
"""The host's name inside a box; outside, the mark of our boxes in the list of processes."""
_START_SECONDS: Final = 30.0
"""Longest time to make a box, and to take it down; a very busy machine needs it."""
_TOOLS: Final = {"bwrap": "bubblewrap", "prlimit": "util-linux", "setpriv": "util-linux"}
_OPTIONS: Final = {
    getattr(resource, f"RLIMIT_{name.upper()}"): f"--{name}"
    for name in ("as", "core", "cpu", "fsize", "memlock", "msgqueue", "nofile", "nproc")
}
"""Options of prlimit(1)."""
_HINT: Final = (
    "bubblewrap 0.7 or newer is needed, and unprivileged user namespaces: on Ubuntu 24.04 load AppArmor's profile "
    "bwrap-userns-restrict; in Docker allow them with --security-opt seccomp=unconfined or a profile of your own"
)


class Bubblewrap:
    name = "bubblewrap"

    def __init__(self) -> None:
        end_orphans()

    def why_unavailable(self) -> str:
        missing = {package for tool, package in _TOOLS.items() if shutil.which(tool) is None}
        if missing:
            return f"install {' and '.join(sorted(missing))} (Debian, Ubuntu: apt install {' '.join(sorted(missing))})"
        return seccomp.why_unavailable()

    def run(self, code: str, language: str, stdin: str, limits: Limits) -> Result:
        started = time.monotonic()
        with _Box(code, language, stdin, limits) as box:
            box.follow()
        return box.result(time.monotonic() - started)


class _Box:
    """One run. Leaving the context ends whatever is left and closes every descriptor."""

    def __init__(self, code: str, language: str, stdin: str, limits: Limits) -> None:
        self._code, self._language, self._stdin, self._limits = code, language, stdin, limits
        self._first: int | None = None
        """PID of the box's first process, as seen from here."""
        self._pidfd: int | None = None

    def __enter__(self) -> _Box:
        with ExitStack() as stack:
            try:
                self._process = self._spawn(stack)
            except OSError as error:
                raise SandboxUnavailable(f"bubblewrap cannot be started: {error.strerror}") from error
            stack.callback(self._end)
            self._meet_first_process()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _spawn(self, stack: ExitStack) -> subprocess.Popen[bytes]:
        """Without ``preexec_fn`` and ``user=``: Python then starts it by vfork, in constant time however large it is."""
        with ExitStack() as theirs:
            out, err, status = (pipe(stack, theirs) for _ in range(3))
            self._out, self._err = (Stream(read, self._limits.output_bytes) for read, _ in (out, err))
            self._status = Stream(status[0], 4096)
            stdin, program, rules = (
                make_sealed_file(theirs, text) for text in (self._stdin, self._code, seccomp.program())
            )
            return subprocess.Popen(
                _command(self._language, self._limits, program=program, rules=rules, status=status[1]),
                stdin=stdin,
                stdout=out[1],
                stderr=err[1],
                pass_fds=(program, rules, status[1]),
                env=dict(ENVIRONMENT),
                cwd="/",
                start_new_session=True,
            )

    def _meet_first_process(self) -> None:
        """bwrap tells its PID, piece by piece. It is held by a pidfd, as soon as it is certain to be this one."""
        poll = select.poll()
        poll.register(self._status.descriptor, select.POLLIN)
        while b"}" not in self._status.data:
            if not poll.poll(_START_SECONDS * 1000):
                raise SandboxUnavailable(f"bubblewrap did not start within {_START_SECONDS:.0f} s")
            if not self._status.read():
                return
        self._first = self._read_status("child-pid")
        with suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(self._first or 0)
            if self._first not in watching.children(self._process.pid):
                os.close(self._pidfd)
                self._pidfd = None

    def follow(self) -> None:
        self._watch = Watch(self._limits, kill=self._kill, look=self._look)
        self._watch.follow(self._out, self._err, until=self._status)

    def _look(self) -> tuple[watching.ResourceUsage, int]:
        usage = watching.usage(self._first or self._process.pid)
        counts = (watching.files_in(pid, "/tmp", self._limits.disk_bytes) for pid in usage.pids)  # noqa: S108
        return usage, next(filter(None, counts), 0)

    def _kill(self, seconds: float = 0) -> None:
        """``seconds``: to wait for the end of a box that was ready."""
        if self._pidfd is not None:
            watching.end(self._pidfd, seconds)
            return
        watching.kill_tree(self._process.pid)  # bwrap's child would wait for it for ever

    def _end(self) -> None:
        self._kill(_START_SECONDS)
        self._process.kill()
        self._process.wait()
        if self._pidfd is not None:
            with suppress(ChildProcessError):  # bwrap leaves it to whoever adopts it: to us where we are PID 1
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
            os.close(self._pidfd)

    def result(self, duration: float) -> Result:
        """bwrap tells an exit code only of programs that it started, and as a shell does: 128 and the signal's number.
        Raises SandboxUnavailable when the program never started."""
        code = 0 if self._watch.stopped else self._read_status("exit-code")
        if code is None:
            message = self._err.data[:300].decode(errors="replace").strip() or "it said nothing"
            raise SandboxUnavailable(f"bubblewrap could not make the box ({message}). {_HINT}")
        code = 128 - code if code - 128 in signal.valid_signals() else code
        return result(self._watch.stopped, code, self._out, self._err, duration)

    def _read_status(self, name: str) -> int | None:
        for line in self._status.data.decode(errors="replace").splitlines():
            number = json.loads(line).get(name)
            if isinstance(number, int):
                return number
        return None


def _command(language: str, limits: Limits, *, program: int, rules: int, status: int) -> list[str]:
    user, interpreter = str(UNPRIVILEGED_ID), programs.interpreter(language)
    # In the box, not before it: the kernel counts processes for each user namespace. One of them is bwrap's own.
    most = resource_limits(limits, limits.processes + 1)
    words: list[str] = []
    for path in (*programs.system_folders(), *programs.system_files(), *interpreter.folders):
        words += ["--ro-bind", path, path]
    for path, target in programs.system_links().items():
        words += ["--symlink", target, path]
    for path in programs.DEVICES:
        words += ["--dev-bind", path, path]
    for path, target in programs.DEVICE_LINKS.items():
        words += ["--symlink", target, path]
    return [
        *_as_nobody(),
        _find_tool("bwrap"),
        *(f"--unshare-{kind}" for kind in ("user", "pid", "net", "ipc", "uts", "cgroup")),
        *("--uid", user, "--gid", user, "--hostname", _HOSTNAME, "--new-session", "--die-with-parent"),
        *("--seccomp", str(rules), "--json-status-fd", str(status)),
        *(*words, "--size", str(limits.disk_bytes), "--tmpfs", "/tmp"),  # noqa: S108
        *("--perms", "0444", "--file", str(program), _PROGRAM),
        *("--proc", "/proc", "--remount-ro", "/proc", "--remount-ro", "/", "--chdir", "/tmp", "--"),  # noqa: S108
        _find_tool("prlimit"),
        *(f"{_OPTIONS[which]}={soft}:{hard}" for which, soft, hard in most),
        "--",
        *interpreter.command,
        _PROGRAM,
    ]


def _as_nobody() -> list[str]:
    """As root, files of root would stay writable from inside by their owner, and no limit of processes would hold."""
    if os.geteuid():
        return []
    user = str(UNPRIVILEGED_ID)
    return [_find_tool("setpriv"), "--reuid", user, "--regid", user, "--clear-groups", "--inh-caps=-all", "--"]


def end_orphans() -> None:
    """A process that is killed while it makes a box takes bwrap with it, whose child then waits for bwrap for ever. It runs
    nothing and holds little; whoever comes next ends it."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(*watching.GONE):
            if _is_orphan(int(path.parent.name)):
                os.kill(int(path.parent.name), signal.SIGKILL)


def _is_orphan(pid: int) -> bool:
    parent = Path(f"/proc/{pid}/status").read_text(errors="replace").partition("PPid:")[2].split()[0]
    return _is_ours(pid) and not _is_ours(int(parent)) and _levels(pid) > _levels(os.getpid())


def _is_ours(pid: int) -> bool:
    return _HOSTNAME.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def _levels(pid: int) -> int:
    """How many PID namespaces a process is in. bwrap itself is in as many as we are, its child in one more."""
    return len(Path(f"/proc/{pid}/status").read_text(errors="replace").partition("NSpid:")[2].splitlines()[0].split())


def _find_tool(tool: str) -> str:
    path = shutil.which(tool)
    if path is None:
        raise SandboxUnavailable(f"{tool} is missing; install {_TOOLS[tool]}")
    return path
