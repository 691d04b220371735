"""For machines that forbid user namespaces, as Docker and Ubuntu 24.04 do unless told otherwise: Landlock rules instead.

The program sees the machine's own file system, of which the rules leave it the system's programs and a folder of its own,
and no process list. It cannot signal anybody, nor reach a socket. What differs from the other backends:

- /tmp is not its own: programs have to use TMPDIR, HOME or the folder that they start in. /proc and /dev/shm are shut.
- The folder is on a real disk, and is looked at every 50 ms: a program that fills it is ended, and may have written more.
- File modes and owners cannot be changed, and other programs' files can be seen to exist (``stat``), not read or listed.
- Without root, limits of processes are shared with whatever else the user runs.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from rl.base.errors import SandboxUnavailable
from rl.sandbox import own_process, programs, scratch, seccomp, tree
from rl.sandbox.contract import ENVIRONMENT, UNPRIVILEGED_ID, Limits, Result
from rl.sandbox.plumbing import make_sealed_file, pipe, read_status, resource_limits, result, unforked
from rl.sandbox.watching import Stream, Watch

_ABI_WITH_SCOPES: Final = 6
_SYS_CREATE_RULESET, _ASK_VERSION = 444, 1
_END_SECONDS: Final = 30.0


class Landlock:
    name = "landlock"

    def why_unavailable(self) -> str:
        abi = ctypes.CDLL(None).syscall(_SYS_CREATE_RULESET, None, 0, _ASK_VERSION)
        if abi < _ABI_WITH_SCOPES:
            return (
                f"Landlock with ABI {_ABI_WITH_SCOPES} is needed (Linux 6.12 or newer, and landlock in the list of the "
                f"kernel parameter lsm=), this kernel has {f'ABI {abi}' if abi > 0 else 'none'}"
            )
        return seccomp.why_unavailable()

    def run(self, code: str, language: str, stdin: str, limits: Limits) -> Result:
        started = time.monotonic()
        with ExitStack() as stack:
            box = _Box(stack, code, language, stdin, limits)
            box.follow()
        return box.result(time.monotonic() - started)


class _Box:
    """One run. Closing the stack ends whatever is left, closes every descriptor and removes the folder."""

    def __init__(self, stack: ExitStack, code: str, language: str, stdin: str, limits: Limits) -> None:
        self._limits = limits
        self._make_folder(stack, code)
        with unforked, ExitStack() as theirs:
            out, err = (pipe(stack, theirs) for _ in range(2))
            self._out, self._err = (Stream(read, limits.output_bytes) for read, _ in (out, err))
            self._channel, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stack.enter_context(self._channel)
            theirs.enter_context(channel)
            self._status = Stream(self._channel.fileno(), 4096)
            source = make_sealed_file(theirs, stdin)
            status = os.fstat(source)
            self._known = {(status.st_dev, status.st_ino)}
            self._process = own_process.start(
                "landlock_child", "main(control, parent)", channel.fileno(), self._environment, source, out[1], err[1]
            )
        stack.callback(self._end)
        self._channel.send(self._request(language))

    def follow(self) -> None:
        self._watch = Watch(self._limits, kill=self._kill, look=self._look)
        with suppress(ConnectionResetError):  # the supervisor was killed before it had read the request
            self._watch.follow(self._out, self._err, until=self._status)

    def result(self, duration: float) -> Result:
        failure, code = read_status(self._status, "failed"), read_status(self._status, "exit")
        if failure or code is None:
            raise SandboxUnavailable(f"Landlock could not make the box ({failure or 'its supervisor was killed'})")
        return result(self._watch.stopped, int(code), self._out, self._err, duration)

    def _make_folder(self, stack: ExitStack, code: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ratchet-box-", dir=_find_folder()))
        stack.callback(scratch.remove, self._folder)
        self._program, self._work = self._folder / "program", self._folder / "work"
        self._program.write_bytes(code.encode(errors="replace"))
        self._program.chmod(0o644)  # whatever the umask is: the program runs as another user
        self._work.mkdir()
        self._environment = {**ENVIRONMENT, "HOME": str(self._work), "TMPDIR": str(self._work)}

    def _request(self, language: str) -> bytes:
        interpreter = programs.interpreter(language)
        folders = (*programs.system_folders(), *programs.system_files(), *interpreter.folders)
        request = {
            "user": UNPRIVILEGED_ID,
            "folder": str(self._folder),
            "work": str(self._work),
            "command": [*interpreter.command, str(self._program)],
            "environment": self._environment,
            "limits": resource_limits(self._limits, self._limits.processes),
            "filters": [seccomp.program_beside_others(), seccomp.program()],
            "rules": [
                (str(self._program), "read"),
                (str(self._work), "own"),
                *((path, "execute") for path in folders),
                *((path, "device") for path in programs.DEVICES),
            ],
        }
        return marshal.dumps(request, own_process.MARSHAL_VERSION)

    def _look(self) -> tuple[tree.Usage, int]:
        usage = tree.usage(self._process.pid)
        programs_own = [pid for pid in usage.pids if pid != self._process.pid]
        try:
            files, size = scratch.usage(self._work, programs_own, self._known, self._limits.file_bytes)
        except PermissionError:
            return usage, self._limits.files + 1
        return usage, self._limits.files + 1 if size > self._limits.disk_bytes else files

    def _kill(self) -> None:
        """The supervisor does it, which is the only one that may signal all of them at once."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)

    def _end(self) -> None:
        self._kill()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in reversed(list(tree.descendants(self._process.pid))):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()


def _find_folder() -> str:
    """Where folders of boxes go: a folder that the user who the program runs as can reach."""
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 (mkdtemp makes a private one in it)
        if programs.is_reachable(Path(folder)):
            return folder
    raise SandboxUnavailable("no folder for temporary files is open to all users; set TMPDIR to one")
