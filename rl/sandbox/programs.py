"""Which interpreter runs a program inside a box, and which folders of this machine it needs to see, read-only."""

import functools
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rl.base.errors import SandboxUnavailable, UsageError

LANGUAGES: Final = ("python", "shell")

SYSTEM_FOLDERS: Final = ("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64")
"""Programs and libraries of the distribution; nothing of /opt, /var or a home folder."""
SYSTEM_LINKS: Final = ("/bin", "/lib", "/lib32", "/lib64")
"""Links into /usr wherever /usr is merged, folders of their own elsewhere."""
SYSTEM_FILES: Final = ("/etc/ld.so.cache", "/etc/alternatives", "/usr/share/zoneinfo")
DEVICES: Final = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")
DEVICE_LINKS: Final = {
    "/dev/zero": "/dev/full",  # reads the same, and cannot be mapped: memory that no limit sees
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/dev/shm": "/tmp",  # noqa: S108 (one size for both)
}

PYTHON_OPTIONS: Final = ("-I", "-S", "-B")
"""Isolated, the standard library alone, no bytecode files: 7 ms of CPU where plain ``python`` takes 10."""
PYTHON_START: Final = """\
import builtins, sys
builtins.exit = builtins.quit = sys.exit
del builtins, sys.argv[0]
__file__ = sys.argv[0]
del sys
exec(compile(open(__file__, "rb").read(), __file__, "exec"))
"""
"""Runs the program whose path is the first argument as ``__main__``. Without ``site`` nobody has defined exit and quit."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    command: tuple[str, ...]
    """The path of the program's file comes after it."""
    folders: tuple[str, ...] = ()
    """What it needs to see beyond the system's."""


def interpreter(language: str) -> Interpreter:
    """Raises UsageError for an unknown language, SandboxUnavailable where this machine has no interpreter for it."""
    if language not in LANGUAGES:
        raise UsageError(f"the sandbox runs {' and '.join(LANGUAGES)}, not {language!r}")
    return _python() if language == "python" else _shell()


def system_folders() -> tuple[str, ...]:
    """Those of the system's folders that this machine has, without links."""
    return tuple(
        path for path in (*SYSTEM_FOLDERS, *SYSTEM_LINKS) if Path(path).is_dir() and not Path(path).is_symlink()
    )


def system_links() -> dict[str, str]:
    """Links of this machine to what they point to, where /usr is merged."""
    return {path: str(Path(path).readlink()) for path in SYSTEM_LINKS if Path(path).is_symlink()}


def system_files() -> tuple[str, ...]:
    return tuple(path for path in SYSTEM_FILES if Path(path).exists())


@functools.cache
def _python() -> Interpreter:
    """The interpreter below the virtual environment where an unprivileged user can reach it, else the system's."""
    version, system = f"python{sys.version_info.major}.{sys.version_info.minor}", Path("/usr")
    own = Path(sys.base_exec_prefix, "bin", version).resolve()
    for program, prefix in ((own, Path(sys.base_prefix)), (Path("/usr/bin/python3"), system)):
        if is_reachable(program) and (prefix == system or is_reachable(prefix)):
            folders = () if prefix == system else tuple(str(prefix.resolve() / part) for part in ("bin", "lib"))
            return Interpreter((str(program), *PYTHON_OPTIONS, "-c", PYTHON_START), folders)
    raise SandboxUnavailable(
        f"an unprivileged user can neither run {own} nor /usr/bin/python3. Install the system's Python "
        "(Debian, Ubuntu: apt install python3), or make the virtual environment with a Python outside of /root"
    )


@functools.cache
def _shell() -> Interpreter:
    """Bash where there is one: people and models mean it when they write ``shell``."""
    for program, options in (("/usr/bin/bash", ("--noprofile", "--norc")), ("/usr/bin/sh", ()), ("/bin/sh", ())):
        if is_reachable(Path(program)):
            return Interpreter((program, *options))
    raise SandboxUnavailable("there is neither /usr/bin/bash nor /bin/sh on this machine")


def is_reachable(path: Path) -> bool:
    """By the user that the code runs as: this one, or, where this one is root, anybody."""
    if not path.exists():
        return False
    if os.geteuid():
        return os.access(path, os.R_OK | os.X_OK)
    resolved = path.resolve()
    wanted = stat.S_IROTH | stat.S_IXOTH
    return (
        all(parent.stat().st_mode & stat.S_IXOTH for parent in resolved.parents)
        and resolved.stat().st_mode & wanted == wanted
    )
