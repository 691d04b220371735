"""System calls for which Python has no function, namespaces and mounts among them.
Imported by the sandbox's own small processes, so ctypes and os only."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
SIGKILL = 9
_SIGPIPE, _SIGXFSZ = 13, 25
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_CAPABILITIES_VERSION = 0x20080522
_NO_DESCRIPTOR = 0xFFFFFFFF


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def check(result: int, what: str) -> int:
    """Raises OSError for a negative result, with what was tried."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def reason(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)


def prctl(option: int, value: int) -> None:
    check(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl({option}, {value})")


def drop_root(user: int) -> None:
    """Turns root into a user and group that own nothing; any other user stays. No way back, even by exec."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * 6)()
    check(_libc.capset(header, none), "capset")


def install_filter(instructions: bytes) -> None:
    """Puts this thread, and all that it starts, under a seccomp filter (struct sock_filter) for good."""
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    program = _FilterProgram(len(instructions) // 8, ctypes.addressof(buffer))
    check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0), "seccomp")


def close_from(first: int) -> None:
    check(_libc.close_range(first, ctypes.c_uint(_NO_DESCRIPTOR), 0), "close_range")


def restore_signals() -> None:
    """Restores the signals that Python ignores, and that other programs expect to end them."""
    for number in (_SIGPIPE, _SIGXFSZ):
        _libc.signal(number, None)


def be_first_out_of_memory() -> None:
    """Better this process, and those it starts, than a training run beside it."""
    _write("/proc/self/oom_score_adj", "1000")


_with_gil = ctypes.PyDLL(None, use_errno=True)
"""For the fork: nothing may happen between it and Python's own clean-up after it."""

_NEWCGROUP = 0x2000000
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_PIDFD, _SIGCHLD = 0x1000, 17
_SYS_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
_SYS_MOUNT_SETATTR = 442

_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 0x1000, 0x4000, 0x40000
_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000

PROGRAM = "/program"


class _MountAttributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_namespace"))


def leave_the_host(inside: int) -> None:
    """This process, without network, in a user namespace where it is ``inside``, and with mounts of its own."""
    outside = os.geteuid(), os.getegid()
    check(_libc.unshare(_NEWUSER | _NEWNS | _NEWNET | _NEWIPC | _NEWUTS | _NEWCGROUP), "making a user namespace")
    map_ids(inside, *outside)
    check(_libc.sethostname(b"box", 3), "sethostname")


def map_ids(inside: int, outside_user: int, outside_group: int) -> None:
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{inside} {outside_user} 1")
    _write("/proc/self/gid_map", f"{inside} {outside_group} 1")


def build_root(paths: list[str], devices: list[str], links: dict[str, str]) -> None:
    """Replaces the host's file system, which is out of reach from then on, by a small read-only one."""
    _mount("none", "/", None, _REC | _PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", _NOSUID | _NODEV, "size=1m,nr_inodes=256,mode=755")
    os.mkdir("/tmp/host")
    check(_libc.pivot_root(b"/tmp", b"/tmp/host"), "pivot_root")
    os.chdir("/")
    for path in paths:
        _bind(path, _NODEV)
    for path in devices:
        _bind(path, 0)
    os.mkdir("/proc")
    # Without one that can be seen whole, the kernel lets no box mount its own.
    _mount("/host/proc", "/proc", None, _BIND | _REC)
    for path, target in links.items():
        os.symlink(target, path)
    os.mkdir("/tmp")
    os.close(os.open(PROGRAM, os.O_CREAT | os.O_WRONLY, 0o644))
    check(_libc.umount2(b"/host", _DETACH), "umount2")
    os.rmdir("/host")
    _mount("none", "/", None, _BIND | _REMOUNT | _RDONLY | _NOSUID | _NODEV)


def fork_into_box() -> tuple[int, int]:
    """Like ``os.fork``: (0, -1) in the child, which is the first process of new namespaces of every kind that isolates;
    its PID and a pidfd of it here. This process must have one thread."""
    pidfd = ctypes.c_int(-1)
    flags = _NEWUSER | _NEWPID | _NEWNS | _NEWNET | _NEWIPC | _NEWUTS | _NEWCGROUP | _PIDFD | _SIGCHLD
    ctypes.pythonapi.PyOS_BeforeFork()
    number = _SYS_CLONE[os.uname().machine]
    pid = _with_gil.syscall(number, ctypes.c_ulong(flags), None, ctypes.byref(pidfd), None, None)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return check(pid, "making a box"), pidfd.value


def furnish_box(program: bytes, disk_bytes: int, files: int) -> None:
    """Its own /tmp, /proc and program; the mounts of ``build_root`` it has already, and cannot change."""
    room = disk_bytes + -(-len(program) // 4096) * 4096
    _mount("tmpfs", "/tmp", "tmpfs", _NOSUID | _NODEV, f"size={room},nr_inodes={files + 2},mode=1777")
    _mount("proc", "/proc", "proc", _RDONLY | _NOSUID | _NODEV | _NOEXEC)
    os.chdir("/tmp")
    with open("program", "wb", 0) as file:
        file.write(program)
    _mount("program", PROGRAM, None, _BIND)
    _mount("none", PROGRAM, None, _BIND | _REMOUNT | _RDONLY | _NOSUID | _NODEV)
    os.unlink("program")


def _bind(path: str, attributes: int) -> None:
    source = f"/host{path}"
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(source, path, None, _BIND | _REC)
    change = _MountAttributes(set=_RDONLY | _NOSUID | attributes)
    size = ctypes.c_size_t(ctypes.sizeof(change))
    result = _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE, ctypes.byref(change), size)
    check(result, f"mount_setattr of {path}")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    type_name = kind.encode() if kind else None
    result = _libc.mount(source.encode(), target.encode(), type_name, ctypes.c_ulong(flags), options.encode())
    check(result, f"mounting {target}")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
