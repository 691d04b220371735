"""A fresh set of namespaces for each program, as with bubblewrap, forked from a Python that has already started.

Cheaper than a plain ``python -I -S``: what costs most, starting the interpreter, is done once. The zygote is a process of
its own, started on first use (zygote_child.py): it shares no memory with this one, and each box is a fork of it that nobody
has used before. It ends with this process, is started anew when somebody has killed it, and every process that is forked
from this one starts its own.

One thing is not new for each program: the seed of ``hash()``, which Python draws when it starts. So a zygote is replaced
after ``JOBS_PER_ZYGOTE`` programs."""

from __future__ import annotations

import atexit
import marshal
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Final

from rl.base.errors import SandboxUnavailable
from rl.sandbox import plumbing, programs, seccomp, watching
from rl.sandbox.contract import ENVIRONMENT, UNPRIVILEGED_ID, Limits, Result
from rl.sandbox.kernel import PROGRAM
from rl.sandbox.plumbing import make_sealed_file, pipe, read_status, resource_limits, result, unforked
from rl.sandbox.watching import Stream, Watch

JOBS_PER_ZYGOTE: Final = 200
_START_SECONDS: Final = 30.0
"""For a machine that is very busy: to make the zygote or a box, and to take them down."""
_ATTEMPTS: Final = 3
"""For one program, when the zygote is killed under it."""
_HINT: Final = (
    "Linux 5.12 or newer is needed, and unprivileged user namespaces: Ubuntu 24.04 and Docker forbid them unless told "
    "otherwise (sysctl kernel.apparmor_restrict_unprivileged_userns=0; --security-opt seccomp=unconfined)"
)


class Zygote:
    """Safe for threads and for forks."""

    name = "zygote"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: list[_Server] = []
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    def why_unavailable(self) -> str:
        return seccomp.why_unavailable()

    def run(self, code: str, language: str, stdin: str, limits: Limits) -> Result:
        started = time.monotonic()
        command = programs.interpreter(language).command
        document = {
            "command": [] if language == "python" else [*command, PROGRAM],
            "environment": dict(ENVIRONMENT),
            "limits": resource_limits(limits, processes=limits.processes + 1),  # one is the box's first
            "disk_bytes": limits.disk_bytes,
            "files": limits.files,
        }
        request = marshal.dumps(document, plumbing.MARSHAL_VERSION)
        for _ in range(_ATTEMPTS):
            with _Box(limits) as box:
                server = self._hand_over(request, box, code, stdin)
                try:
                    if box.follow():
                        break
                    server.kill()
                finally:
                    with self._lock:
                        server.leave()
        else:
            raise SandboxUnavailable("something keeps killing the zygote, the process that makes the sandbox's boxes")
        return box.result(time.monotonic() - started)

    def close(self) -> None:
        """Ends the zygote and its boxes. The next ``run`` starts another."""
        with self._lock:
            for server in self._servers:
                server.close()
            self._servers = []

    def _hand_over(self, request: bytes, box: _Box, code: str, stdin: str) -> _Server:
        with self._lock, unforked, ExitStack() as theirs:
            descriptors = box.open(theirs, code, stdin)
            for _ in range(_ATTEMPTS):
                if not self._servers or not self._servers[-1].is_open:
                    # those before it end with the last of their boxes
                    self._servers = [server for server in self._servers if not server.is_over]
                    self._servers.append(_Server())
                server = self._servers[-1]
                if server.take(request, descriptors):
                    return server
                server.close()
        raise SandboxUnavailable("the zygote, the process that makes the sandbox's boxes, does not answer")

    def _forget(self) -> None:
        """In a forked process: the zygote is its parent's."""
        self._lock = threading.Lock()
        for server in self._servers:
            server.forget()
        self._servers = []


class _Server:
    """One zygote, and the channel to it."""

    def __init__(self) -> None:
        """Raises SandboxUnavailable when this machine does not allow it."""
        self._jobs = self._running = 0
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_START_SECONDS)
        streams = (subprocess.PIPE,) * 3  # as those of a program are: Python looks at that when it starts
        with theirs:
            call = "main(control, parent, fresh)"
            self._process = plumbing.start("zygote_child", call, theirs.fileno(), ENVIRONMENT, *streams)
        for pipe_end in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe_end is not None:
                pipe_end.close()
        folders = programs.interpreter("python").folders
        settings = {
            "user": UNPRIVILEGED_ID,
            "filter": seccomp.program(),
            "paths": [*programs.system_folders(), *programs.system_files(), *folders],
            "devices": list(programs.DEVICES),
            "links": programs.system_links() | programs.DEVICE_LINKS,
        }
        answer = "it said nothing"
        with suppress(OSError):
            self._channel.send(marshal.dumps(settings, plumbing.MARSHAL_VERSION))
            answer = self._channel.recv(4096).decode() or answer
        if answer != "ready":
            self.close()
            raise SandboxUnavailable(f"the zygote cannot make boxes ({answer}). {_HINT}")

    @property
    def is_over(self) -> bool:
        return not self.is_open and self._running <= 0

    @property
    def is_open(self) -> bool:
        return self._channel.fileno() >= 0

    def take(self, request: bytes, descriptors: Sequence[int]) -> bool:
        """False when the zygote is gone. With the last job the channel is closed, and the zygote ends with its last box."""
        try:
            socket.send_fds(self._channel, [request], descriptors)
        except OSError:
            return False
        self._jobs += 1
        self._running += 1
        if self._jobs == JOBS_PER_ZYGOTE:
            self._channel.close()
        return True

    def leave(self) -> None:
        """One of the jobs has ended."""
        self._running -= 1
        if self.is_over:
            self.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self._channel.close()
        self.kill()

    def forget(self) -> None:
        self._channel.close()
        self._process.returncode = 0  # not a child of this process: nothing to wait for


class _Box:
    """One run. Leaving the context ends whatever is left and closes every descriptor."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pidfd: int | None = None
        """Descriptor (pidfd) of the box's first process; None until it is there."""
        self._pid = 0

    def __enter__(self) -> _Box:
        self._stack = ExitStack()
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            if self._pidfd is not None:
                watching.end(self._pidfd, _START_SECONDS)

    def open(self, theirs: ExitStack, code: str, stdin: str) -> list[int]:
        """The descriptors that go to the zygote, in its order."""
        out, err = (pipe(self._stack, theirs) for _ in range(2))
        self._out, self._err = (Stream(read, self._limits.output_bytes) for read, _ in (out, err))
        self._channel, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._stack.enter_context(self._channel)
        theirs.enter_context(status)
        self._status = Stream(self._channel.fileno(), 4096)
        return [make_sealed_file(theirs, stdin), out[1], err[1], status.fileno(), make_sealed_file(theirs, code)]

    def follow(self) -> bool:
        """False when the zygote died, and the box with it."""
        if self._meet_first_process():
            self._watch = Watch(self._limits, kill=self._kill, look=lambda: (watching.usage(self._pid), 0))
            self._watch.follow(self._out, self._err, until=self._status)
        failure = read_status(self._status, "failed")
        if failure:
            raise SandboxUnavailable(f"the zygote could not make a box ({failure}). {_HINT}")
        return read_status(self._status, "ended") is not None

    def result(self, duration: float) -> Result:
        code = int(read_status(self._status, "exit") or -signal.SIGKILL)
        return result(self._watch.stopped, code, self._out, self._err, duration)

    def _meet_first_process(self) -> bool:
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while self._pidfd is None and poll.poll(_START_SECONDS * 1000):
            data, descriptors, _, _ = socket.recv_fds(self._channel, 4096, 1, socket.MSG_CMSG_CLOEXEC)
            if not data:
                return False
            self._status.data += data
            for self._pidfd in descriptors:
                self._stack.callback(os.close, self._pidfd)
        self._pid = int(read_status(self._status, "started") or 0)
        return self._pidfd is not None

    def _kill(self) -> None:
        if self._pidfd is not None:
            watching.end(self._pidfd, 0)
