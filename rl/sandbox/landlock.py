"""For machines that forbid user namespaces, as Docker and Ubuntu 24.04 do unless told otherwise: Landlock rules instead.

The program sees the machine's own file system, of which the rules leave it the system's programs and a folder of its own,
and no process list. It cannot signal anybody, nor reach a socket. What differs from the other backends:

- /tmp is not its own: programs have to use TMPDIR, HOME or the folder that they start in. /proc and /dev/shm are shut.
- The folder is on a real disk, and is looked at every 50 ms: a program that fills it is ended, and may have written more.
- File modes and owners cannot be changed, and other programs' files can be seen to exist (``stat``), not read or listed.
- Without root, limits of processes are shared with whatever else the user runs."""

import ctypes
import marshal
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from rl.base.errors import SandboxUnavailable
from rl.sandbox import plumbing, programs, seccomp, watching
from rl.sandbox.contract import ENVIRONMENT, UNPRIVILEGED_ID, Limits, Result
from rl.sandbox.plumbing import make_sealed_file, pipe, read_status, resource_limits, result, unforked
from rl.sandbox.watching import GONE, Stream, Watch

_BLOCK_BYTES: Final = 512
MOST_ENTRIES: Final = 200_000
"""The most entries of a folder that is looked at."""

FileId = tuple[int, int]
"""Device and inode."""


def disk_usage(folder: Path, pids: Collection[int], known: Collection[FileId], file_bytes: int) -> tuple[int, int]:
    """Files and folders, and bytes: what is in the folder, and what has been removed and is still held open or mapped by
    one of the processes. A mapped file that is nowhere else counts ``file_bytes``, the most that it can have. ``known``
    files are not counted.

    Raises PermissionError when a process hides what it holds, or there is too much, or too long a path, to look at."""
    entries, size = 0, 0
    for blocks in _blocks(folder):
        entries += 1
        size += blocks * _BLOCK_BYTES
        if entries > MOST_ENTRIES:
            raise PermissionError(f"more than {MOST_ENTRIES} files and folders")
    held: dict[FileId, int] = {}
    for pid in pids:
        with suppress(*GONE):
            _add_held(pid, held, file_bytes)
    removed = {file: size for file, size in held.items() if file not in known}
    return entries + len(removed), size + sum(removed.values())


def remove_folder(folder: Path) -> None:
    """Removes a folder of any depth that nobody uses any more: what is nested is moved up, so no path gets long."""
    moved = 0
    while folders := [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]:
        for nested in folders:
            Path(nested.path).chmod(stat.S_IRWXU)
            for entry in os.scandir(nested.path):
                if entry.is_dir(follow_symlinks=False):
                    moved += 1
                    Path(entry.path).chmod(stat.S_IRWXU)
                    Path(entry.path).rename(folder / f".{moved}.ratchet")
                else:
                    Path(entry.path).unlink()
            Path(nested.path).rmdir()
    shutil.rmtree(folder)


def _blocks(folder: Path) -> Iterator[int]:
    """Disk blocks of each file and folder. A folder that was made without rights cannot be given any: it is empty. What
    is a link by the time that it is opened may lead anywhere: MOST_ENTRIES ends that walk."""
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    yield entry.stat(follow_symlinks=False).st_blocks
        except (*GONE, NotADirectoryError, PermissionError):
            continue
        except OSError as error:
            raise PermissionError(str(error)) from error


def _add_held(pid: int, held: dict[FileId, int], file_bytes: int) -> None:
    """By each thread, which may have a table of files of its own, and may live longer than the process's first.

    Raises PermissionError for one that may not be looked into; one that has ended holds nothing."""
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        task = f"/proc/{pid}/task/{thread}"
        try:
            with suppress(*GONE):
                for name in os.listdir(f"{task}/fd"):  # noqa: PTH208
                    with suppress(*GONE):
                        status = os.stat(f"{task}/fd/{name}")  # noqa: PTH116
                        if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                            held[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK_BYTES
                for line in Path(f"{task}/maps").read_text(errors="replace").splitlines():
                    if line.endswith(" (deleted)"):
                        _, _, _, device, inode, _ = line.split(None, 5)
                        major, minor = (int(part, 16) for part in device.split(":"))
                        held.setdefault((os.makedev(major, minor), int(inode)), file_bytes)
        except PermissionError:
            if not _has_ended(task):
                raise


def _has_ended(task: str) -> bool:
    try:
        return watching.stat_of(task)[0] in "ZX"
    except GONE:
        return True


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
            self._process = plumbing.start(
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
        folders = (tempfile.gettempdir(), "/tmp", "/var/tmp")  # noqa: S108 (mkdtemp makes a private one in it)
        for_all = next((folder for folder in folders if programs.is_reachable(Path(folder))), None)
        if for_all is None:
            raise SandboxUnavailable("no folder for temporary files is open to all users; set TMPDIR to one")
        self._folder = Path(tempfile.mkdtemp(prefix="ratchet-box-", dir=for_all))
        stack.callback(remove_folder, self._folder)
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
        return marshal.dumps(request, plumbing.MARSHAL_VERSION)

    def _look(self) -> tuple[watching.ResourceUsage, int]:
        usage = watching.usage(self._process.pid)
        programs_own = [pid for pid in usage.pids if pid != self._process.pid]
        try:
            files, size = disk_usage(self._work, programs_own, self._known, self._limits.file_bytes)
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
            watching.kill_tree(self._process.pid)
            self._process.wait()
