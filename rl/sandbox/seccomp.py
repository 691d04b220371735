"""The one system-call filter of every backend: a list of what is allowed, built by libseccomp (through ctypes).

What is not on the list answers ENOSYS, as on an older kernel, so that libraries fall back; what people would wonder about
answers EPERM. No sockets but connected pairs, no new namespaces, no memory that the limits cannot see (memfd, System V,
shared mappings without a file, huge pages, pages sent to the swap), no tracing, no keys, no BPF, no io_uring, and nothing
that is counted for each user of the machine (inotify, POSIX timers). 32-bit calls kill the process."""

import ctypes
import errno
import functools
import os
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char_p, c_int, c_uint, c_uint32, c_uint64, c_void_p
from typing import Final

from rl.base.errors import SandboxUnavailable

_LIBRARY: Final = "libseccomp.so.2"
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_KILL_PROCESS: Final = 0x80000000
_BAD_ARCHITECTURE, _OPTIMIZE = 2, 8
_NOT_EQUAL, _EQUAL, _MASKED_EQUAL = 1, 4, 7

_NEW_NAMESPACES: Final = 0x7E020080
"""CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_IOCTLS: Final = (0x5401, 0x802C542A, 0x5413, 0x540F, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TCGETS2, TIOCGWINSZ, TIOCGPGRP, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX: asking and closing. No TIOCSTI."""
_MAP_SHARED, _MAP_ANONYMOUS, _MAP_HUGETLB = 1, 0x20, 0x40000
_ADVICE: Final = (0, 1, 2, 3, 4, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 22, 23)
"""What programs may tell madvise: all but to merge pages, or to send them to the swap, where no limit counts."""
_AF_UNIX, _SOCK_STREAM, _SOCK_TYPE_BITS, _MSG_OOB = 1, 1, 0xF, 1

_REFUSED: Final = """
    socket connect bind listen accept accept4 unshare setns mount umount2 pivot_root chroot ptrace process_vm_readv
    process_vm_writev memfd_create shmget shmat shmctl bpf keyctl add_key request_key perf_event_open io_uring_setup
    sethostname settimeofday clock_settime adjtimex reboot swapon syslog
"""

_ALLOWED: Final = """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 sendfile copy_file_range
    open openat openat2 creat close close_range dup dup2 dup3 pipe pipe2 fcntl flock lseek fsync fdatasync sync_file_range
    fallocate ftruncate truncate readahead fadvise64
    stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat getdents getdents64
    mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat mknod mknodat
    chmod fchmod fchmodat chown fchown fchownat lchown utime utimes utimensat futimesat umask chdir fchdir getcwd
    getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
    munmap mprotect mremap msync mincore brk membarrier get_mempolicy
    fork vfork execve execveat exit exit_group wait4 waitid set_tid_address set_robust_list get_robust_list futex rseq
    arch_prctl prctl capget getpid getppid gettid getpgid getpgrp setpgid getsid setsid getpriority setpriority
    getuid geteuid getgid getegid getgroups getresuid getresgid setuid setgid setreuid setregid setresuid setresgid
    setgroups setfsuid setfsgid kill tkill tgkill pidfd_open pidfd_send_signal
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigqueueinfo
    rt_tgsigqueueinfo sigaltstack signalfd signalfd4 pause alarm getitimer setitimer restart_syscall
    sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler sched_setscheduler sched_getattr
    sched_get_priority_max sched_get_priority_min sched_rr_get_interval getcpu ioprio_get
    getrlimit setrlimit prlimit64 getrusage times sysinfo uname getrandom
    time gettimeofday clock_gettime clock_getres nanosleep clock_nanosleep
    timerfd_create timerfd_settime timerfd_gettime
    select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2
    shutdown getsockname getpeername getsockopt
"""

_FOR_THE_OWNER: Final = "chmod fchmod fchmodat fchmodat2 chown fchown fchownat lchown"
_TIMES: Final = "utime utimes utimensat futimesat"
_OF_ANOTHER_PROCESS: Final = "prlimit64 setpriority sched_setaffinity sched_setscheduler"
"""Their first argument is a PID, 0 for the caller's own; of setpriority it is the second, and 0 the first."""


class _Comparison(Structure):
    _fields_ = (("argument", c_uint), ("operator", c_int), ("first", c_uint64), ("second", c_uint64))


@functools.cache
def program() -> bytes:
    """The filter as BPF instructions (struct sock_filter), for ``bwrap --seccomp`` or the kernel.

    Raises SandboxUnavailable where libseccomp is missing or does not know this processor."""
    return _build_filter(_ERRNO | errno.ENOSYS, _fill)


def why_unavailable() -> str:
    try:
        program()
    except SandboxUnavailable as error:
        return str(error)
    return ""


@functools.cache
def program_beside_others() -> bytes:
    """A second filter, on top, for a program whose user has other files and processes, which it can name."""
    return _build_filter(_ALLOW, _fill_beside_others)


def _build_filter(otherwise: int, fill: Callable[[ctypes.CDLL, int], None]) -> bytes:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise SandboxUnavailable(
            f"{_LIBRARY} is missing; install it (Debian, Ubuntu: apt install libseccomp2)"
        ) from error
    library.seccomp_init.restype = c_void_p
    library.seccomp_init.argtypes = [c_uint32]
    library.seccomp_release.argtypes = [c_void_p]
    library.seccomp_attr_set.argtypes = [c_void_p, c_int, c_uint32]
    library.seccomp_syscall_resolve_name.argtypes = [c_char_p]
    library.seccomp_rule_add_array.argtypes = [c_void_p, c_uint32, c_int, c_uint, POINTER(_Comparison)]
    library.seccomp_export_bpf.argtypes = [c_void_p, c_int]
    context = library.seccomp_init(otherwise)
    if not context:
        raise SandboxUnavailable("libseccomp does not know this machine's processor")
    descriptor = os.memfd_create("seccomp")
    try:
        fill(library, context)
        _check_code(library.seccomp_export_bpf(context, descriptor))
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)
        library.seccomp_release(context)


def _fill(library: ctypes.CDLL, context: int) -> None:
    _check_code(library.seccomp_attr_set(context, _BAD_ARCHITECTURE, _KILL_PROCESS))
    library.seccomp_attr_set(context, _OPTIMIZE, 2)  # a tree instead of a list; libseccomp before 2.5 has none
    for name in _ALLOWED.split():
        _rule(library, context, _ALLOW, name)
    for name in _REFUSED.split():
        _rule(library, context, _ERRNO | errno.EPERM, name)
    _rule(library, context, _ALLOW, "clone", _Comparison(0, _MASKED_EQUAL, _NEW_NAMESPACES, 0))
    for request in _IOCTLS:  # the kernel looks at the lower 32 bits only, so must we
        _rule(library, context, _ALLOW, "ioctl", _Comparison(1, _MASKED_EQUAL, 0xFFFFFFFF, request))
    # A shared mapping without a file is a file in memory: what is unmapped of it stays, and nothing counts it.
    hidden = _MAP_SHARED | _MAP_ANONYMOUS
    for bit in (_MAP_SHARED, _MAP_ANONYMOUS):
        _rule(library, context, _ALLOW, "mmap", _Comparison(3, _MASKED_EQUAL, bit | _MAP_HUGETLB, 0))
    _rule(library, context, _ERRNO | errno.EPERM, "mmap", _Comparison(3, _MASKED_EQUAL, hidden, hidden))
    for advice in _ADVICE:
        _rule(library, context, _ALLOW, "madvise", _Comparison(2, _MASKED_EQUAL, 0xFFFFFFFF, advice))
    # asyncio wakes itself up through a pair. Only streams, only plain bytes: datagrams can be sent to other addresses.
    pair = (_Comparison(0, _EQUAL, _AF_UNIX, 0), _Comparison(1, _MASKED_EQUAL, _SOCK_TYPE_BITS, _SOCK_STREAM))
    _rule(library, context, _ALLOW, "socketpair", *pair)
    in_band = _Comparison(3, _MASKED_EQUAL, _MSG_OOB, 0)
    _rule(library, context, _ALLOW, "sendto", in_band, _Comparison(4, _EQUAL, 0, 0))
    _rule(library, context, _ALLOW, "recvfrom", in_band)


def _fill_beside_others(library: ctypes.CDLL, context: int) -> None:
    for name in _FOR_THE_OWNER.split():
        _rule(library, context, _ERRNO | errno.EPERM, name)
    for name in _TIMES.split():  # says that it is done, and does nothing: ``touch`` asks for it, and few look
        _rule(library, context, _ERRNO, name)
    for name in _OF_ANOTHER_PROCESS.split():
        _rule(library, context, _ERRNO | errno.EPERM, name, _Comparison(0, _NOT_EQUAL, 0, 0))
    _rule(library, context, _ERRNO | errno.EPERM, "setpriority", _Comparison(1, _NOT_EQUAL, 0, 0))


def _rule(library: ctypes.CDLL, context: int, action: int, name: str, *comparisons: _Comparison) -> None:
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number >= 0:  # processors differ: 64-bit ARM has no open, for one
        array = (_Comparison * len(comparisons))(*comparisons)
        _check_code(library.seccomp_rule_add_array(context, action, number, len(comparisons), array))


def _check_code(code: int) -> None:
    if code < 0:
        raise SandboxUnavailable(f"libseccomp cannot build the system-call filter: {os.strerror(-code)}")
