"""The supervisor of one program on the Landlock tier, and the program's process until it starts. See landlock.py.

    supervisor: may signal only what it started ── fork ──► the program: sees only what it needs

Landlock rules are inherited and can only be tightened. The supervisor's own rule (a signal goes to processes under the same
rule, nowhere else) turns a signal to all processes into one to all that the program has left, and to no other."""

import ctypes
import marshal
import os
import resource
import select
from _socket import socket

from rl.sandbox import kernel
from rl.sandbox.kernel import check

_libc = ctypes.CDLL(None, use_errno=True)

_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_SOCK, _MAKE_BLOCK, _TRUNCATE = 1 << 6, 1 << 9, 1 << 11, 1 << 14
_ALL_FILES = (1 << 16) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
"""Rights that a rule for a single file may give."""
_RIGHTS = {
    "read": _READ_FILE | _READ_DIR,
    "execute": _READ_FILE | _READ_DIR | _EXECUTE,
    "device": _READ_FILE | _WRITE_FILE,
    "own": _ALL_FILES & ~(_MAKE_CHAR | _MAKE_SOCK | _MAKE_BLOCK),
}
_FIRST_USER = 0x70000000
"""Nobody's range of user ids: systemd, containers and people have all others."""
_MOST_BYTES = 65536
_REAP_MILLISECONDS = 50


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def main(control: int, parent: int) -> None:
    """Ends with the process. ``control``: a SOCK_SEQPACKET socket; ``parent``: its PID."""
    watched = os.pidfd_open(parent)
    if os.getppid() != parent:
        os._exit(0)
    os.set_inheritable(control, False)
    channel = socket(fileno=control)
    request = marshal.loads(channel.recv(_MOST_BYTES))  # noqa: S302 (from our own parent)
    try:
        _settle(request, parent)
        program = os.fork()
        if not program:
            _start(request)
    except OSError as error:
        _tell(channel, f"failed {kernel.reason(error)}")
        os._exit(1)
    for descriptor in range(3):
        os.close(descriptor)
    _tell(channel, f"exit {_until_over(program, control, watched)}")
    os._exit(0)


def _tell(channel: socket, line: str) -> None:
    try:
        channel.send(f"{line}\n".encode())
    except OSError:
        return  # the parent has lost interest


def _settle(request: dict, parent: int) -> None:
    os.umask(0o022)
    if os.geteuid() == 0:
        # another one for each run: limits are counted by user, and files and processes of others are out of reach
        user = _FIRST_USER + os.getpid()
        try:
            os.chown(request["folder"], user, user)
        except OSError:  # a container may not have so many
            user = request["user"]
        request["user"] = user
        for path in (request["folder"], request["work"]):
            os.chown(path, user, user)
    kernel.drop_root(request["user"])
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    _restrict(_Ruleset(scoped=_SCOPE_SIGNALS | _SCOPE_ABSTRACT_SOCKETS), [])
    try:
        os.kill(parent, 0)
    except PermissionError:
        return
    raise OSError(0, "Landlock does not confine signals")  # and a signal to all would reach everything


def _start(request: dict) -> None:
    """In the program's process: gives up everything, and becomes the program."""
    os.setsid()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, kernel.SIGKILL)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    kernel.be_first_out_of_memory()
    # processes and threads, the supervisor among them: the kernel counts them all against the limit of processes
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/status") as file:
                fields = dict(line.split(":", 1) for line in file)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields["Uid"].split()[0]) == os.getuid():
            count += int(fields["Threads"])
    others = count - 1
    os.chdir(request["work"])
    _restrict(_Ruleset(_ALL_FILES, 3, _SCOPE_SIGNALS | _SCOPE_ABSTRACT_SOCKETS), request["rules"])
    for which, soft, hard in request["limits"]:
        more = others if which == resource.RLIMIT_NPROC else 0
        resource.setrlimit(which, (soft + more, hard + more))
    kernel.restore_signals()
    for instructions in request["filters"]:
        kernel.install_filter(instructions)
    os.execve(request["command"][0], request["command"], request["environment"])  # noqa: S606


def _restrict(ruleset: _Ruleset, rules: list[tuple[str, str]]) -> None:
    """``rules``: pairs of path and kind of right."""
    size = ctypes.c_size_t(ctypes.sizeof(ruleset))
    descriptor = check(_libc.syscall(_SYS_CREATE_RULESET, ctypes.byref(ruleset), size, 0), "Landlock")
    for path, kind in rules:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights = _RIGHTS[kind] & (_ALL_FILES if os.path.isdir(path) else _OF_FILES)
        rule = _PathBeneath(rights, folder)
        added = _libc.syscall(_SYS_ADD_RULE, descriptor, 1, ctypes.byref(rule), 0)
        check(added, f"a Landlock rule for {path}")
        os.close(folder)
    check(_libc.syscall(_SYS_RESTRICT_SELF, descriptor, 0), "landlock_restrict_self")
    os.close(descriptor)


def _until_over(program: int, control: int, parent: int) -> int:
    """Waits for the program, for the other end of the channel or for the parent's end; returns how the program ended, when
    nothing that it started is left."""
    poll = select.poll()
    for descriptor in (os.pidfd_open(program), control, parent):
        poll.register(descriptor, select.POLLIN)
    while not poll.poll(_REAP_MILLISECONDS):
        _reap_orphans(program)
    _kill_all()
    status = 0
    try:
        while True:
            pid, ended = os.wait()
            status = ended if pid == program else status
    except ChildProcessError:
        return os.waitstatus_to_exitcode(status)


def _reap_orphans(program: int) -> None:
    """They come to the supervisor, and count against the limit of processes until somebody asks how they ended."""
    while True:
        child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if child is None or child.si_pid == program:
            return
        os.waitpid(child.si_pid, 0)


def _kill_all() -> None:
    """Under the same Landlock rule, that is: the program and whatever it has started, in one system call."""
    try:
        os.kill(-1, kernel.SIGKILL)
    except ProcessLookupError:
        return
