"""What a program that is not ours sees of our environment, which may hold passwords and keys."""

import os

_SYSTEM = (
    *("PATH", "HOME", "USERPROFILE", "SYSTEMROOT", "TMPDIR", "TEMP"),
    *("TMP", "LANG", "LC_ALL", "OMP_NUM_THREADS", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
)


def system_variables(*more: str) -> dict[str, str]:
    """Those of the system, and ``more``, as far as they are set."""
    return {name: os.environ[name] for name in (*_SYSTEM, *more) if name in os.environ}
