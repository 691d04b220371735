"""System calls for which Python has no function. Imported by the sandbox's own small processes, so ctypes and os only."""

from __future__ import annotations

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
    descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    try:
        os.write(descriptor, b"1000")
    finally:
        os.close(descriptor)
