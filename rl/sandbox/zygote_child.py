"""The zygote: a small Python, started fresh, that forks one box for each request. See zygote.py for the other end.

It can reach neither the host's files nor a network, holds no capabilities, and reads no program: every program comes as a
descriptor that only its box reads. So a box, which is a copy of it, has nothing to find.

    zygote ── fork into new namespaces ──► first process: sets up the box, waits, reports ── fork ──► the program

The first process of a PID namespace takes everything in it along when it ends, and cannot be signalled from within."""

import builtins
import fcntl
import gc
import marshal
import os
import resource
import select
import struct
import sys
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOL_SOCKET, socket

from rl.sandbox import kernel
from rl.sandbox.kernel import PROGRAM

_FLUSH_FAILED = 120
"""What Python exits with when it cannot write what is left in stdout."""


def prepare() -> None:
    """Before forks: what exists now is not looked at by their garbage collectors."""
    gc.collect()
    gc.freeze()


def execute(source: bytes, fresh: set[str]) -> None:
    """Does not return. ``fresh``: the modules of a new interpreter."""
    for name in set(sys.modules) - fresh:
        del sys.modules[name]
    for folder in set(sys.path_importer_cache) - set(sys.path):
        del sys.path_importer_cache[folder]
    module = type(sys)("__main__")
    module.__dict__.update(__file__=PROGRAM, __builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = module
    builtins.__dict__.update(exit=sys.exit, quit=sys.exit)  # as in a program that bubblewrap starts
    sys.argv[:] = [PROGRAM]
    sys.orig_argv[:] = [sys.executable, PROGRAM]
    names = module.__dict__
    status = _result_of(source, names)
    os._exit(_end(names) or status)


def _result_of(source: bytes, names: dict[str, object]) -> int:
    try:
        exec(compile(source, PROGRAM, "exec", dont_inherit=True), names)  # noqa: S102 (what the box is for)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)  # noqa: T201
        return 1
    except BaseException as error:  # noqa: BLE001  somebody's program
        here = error.__traceback__
        sys.excepthook(type(error), error.with_traceback(here and here.tb_next), here and here.tb_next)
        return 1
    return 0


def _end(names: dict[str, object]) -> int:
    """An exit status that replaces the program's, or 0."""
    threading = sys.modules.get("threading")
    if threading:
        threading._shutdown()  # noqa: SLF001  as the interpreter does at its end
    import atexit

    atexit._run_exitfuncs()  # noqa: SLF001  the same
    failed = _flush()
    for name in list(names):
        if name != "__builtins__":
            names[name] = None
    gc.collect()
    return _FLUSH_FAILED if _flush() or failed else 0


def _flush() -> bool:
    """Whether stdout could not be written."""
    failed = False
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError, AttributeError):
            failed |= stream is sys.stdout
    return failed


_STATUS, _CODE, _FIRST_FREE = 3, 4, 5
"""Descriptors of a box, after stdin, stdout and stderr. Every request comes with these five, in this order."""
_MOST_BYTES = 65536


def main(control: int, parent: int, fresh: set[str]) -> None:
    """Does not return. ``control``: a SOCK_SEQPACKET socket; ``parent``: its PID; ``fresh``: the modules of a new
    interpreter."""
    control = fcntl.fcntl(control, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    for number in (_STATUS, _CODE):  # no descriptor that comes later may have the number of a box's own
        os.dup2(0, number)
    watched = os.pidfd_open(parent)
    if os.getppid() != parent:
        os._exit(0)
    channel = socket(fileno=control)
    settings = marshal.loads(channel.recv(_MOST_BYTES))  # noqa: S302 (from our own parent)
    try:
        _settle(settings)
    except OSError as error:
        channel.send(kernel.reason(error).encode())
        os._exit(1)
    channel.send(b"ready")
    prepare()
    source = _Zygote(channel, watched, settings["user"], settings["filter"]).serve()
    execute(source, fresh)


def _settle(settings: dict) -> None:
    kernel.be_first_out_of_memory()
    os.umask(0o022)
    kernel.drop_root(settings["user"])
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    kernel.leave_the_host(settings["user"])
    kernel.build_root(settings["paths"], settings["devices"], settings["links"])
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


class _Zygote:
    def __init__(self, channel: socket, parent: int, user: int, instructions: bytes) -> None:
        self._channel, self._parent, self._user, self._filter = channel, parent, user, instructions
        self._alive = os.pidfd_open(os.getpid())
        self._boxes: dict[int, tuple[int, int]] = {}
        """pidfd to PID and status descriptor."""
        self._unwanted: dict[int, int] = {}
        """Status descriptor to pidfd: when the other end closes it, nobody waits for the box any more."""
        self._poll = select.poll()
        for descriptor in (channel.fileno(), parent):
            self._poll.register(descriptor, select.POLLIN)
        self._open = True

    def serve(self) -> bytes:
        """Until the parent is gone, or has closed the channel and the last box has ended. Returns in the processes of Python
        programs only: the source."""
        while self._open or self._boxes:
            descriptor, _ = self._poll.poll()[0]  # one at a time: the next may have been closed by then
            if descriptor == self._parent:
                os._exit(0)
            elif descriptor in self._boxes:
                self._bury(descriptor)
            elif descriptor in self._unwanted:
                self._bury(self._unwanted[descriptor], kill=True)
            elif (source := self._answer()) is not None:
                return source
        os._exit(0)

    def _answer(self) -> bytes | None:
        request, ancillary, _, _ = self._channel.recvmsg(_MOST_BYTES, CMSG_SPACE(_FIRST_FREE * 4), MSG_CMSG_CLOEXEC)
        if not request:
            self._poll.unregister(self._channel.fileno())
            self._open = False
            return None
        descriptors = struct.unpack(f"{_FIRST_FREE}i", ancillary[0][2])
        try:
            pid, pidfd = kernel.fork_into_box()
            if not pid:
                self._channel.detach()
                return self._enter_box(marshal.loads(request), descriptors)  # noqa: S302 (the same)
            status = os.dup(descriptors[_STATUS])
            self._boxes[pidfd], self._unwanted[status] = (pid, status), pidfd
            self._poll.register(pidfd, select.POLLIN)
            self._poll.register(status, 0)
            channel = socket(fileno=status)
            try:
                channel.sendmsg([f"started {pid}\n".encode()], [(SOL_SOCKET, SCM_RIGHTS, struct.pack("i", pidfd))])
            finally:
                channel.detach()
        except OSError as error:
            _tell(descriptors[_STATUS], f"failed {kernel.reason(error)}")
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _bury(self, pidfd: int, kill: bool = False) -> None:
        """A box's first process can be waited for when nothing else is left in the box."""
        pid, status = self._boxes.pop(pidfd)
        del self._unwanted[status]
        if kill:
            os.kill(pid, kernel.SIGKILL)
        os.waitpid(pid, 0)
        _tell(status, "ended")
        for descriptor in (pidfd, status):
            self._poll.unregister(descriptor)
            os.close(descriptor)

    def _enter_box(self, request: dict, descriptors: tuple[int, ...]) -> bytes:
        """For the box's first process, which stays in here, and the program's, which returns."""
        try:
            kernel.prctl(kernel.PR_SET_PDEATHSIG, kernel.SIGKILL)
            poll = select.poll()
            poll.register(self._alive, select.POLLIN)
            if poll.poll(0):  # the zygote is over
                os._exit(1)
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number, inheritable=number < _STATUS)
            kernel.close_from(_FIRST_FREE)
            code = os.pread(_CODE, os.fstat(_CODE).st_size, 0)
            os.close(_CODE)
            kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
            kernel.map_ids(self._user, self._user, self._user)
            kernel.furnish_box(code, request["disk_bytes"], request["files"])
            kernel.drop_capabilities()
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # the program has the same user, and must not look in here
            kernel.install_filter(self._filter)
            program = os.fork()
        except OSError as error:
            _tell(_STATUS, f"failed {kernel.reason(error)}")
            os._exit(1)
        if program:
            _see_to_the_end(program)
        os.close(_STATUS)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        os.setsid()
        for which, soft, hard in request["limits"]:
            resource.setrlimit(which, (soft, hard))
        if request["command"]:
            kernel.restore_signals()
            os.execve(request["command"][0], request["command"], request["environment"])  # noqa: S606
        return code


def _see_to_the_end(program: int) -> None:
    """Waits for the program, and meanwhile for what it has orphaned. What is left then ends with this process."""
    for descriptor in range(_STATUS):
        os.close(descriptor)
    while True:
        pid, status = os.wait()
        if pid == program:
            _tell(_STATUS, f"exit {os.waitstatus_to_exitcode(status)}")
            os._exit(0)


def _tell(descriptor: int, line: str) -> None:
    """The parent may have lost interest."""
    try:
        os.write(descriptor, f"{line}\n".encode())
    except OSError:
        return
