"""Room on a disk, and what says that there is none."""

import errno
import shutil
from pathlib import Path

RESERVE_BYTES = 4 * 2**20
"""With less than this nothing new is begun: what was begun must still be written down."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def tells_of_full_disk(error: BaseException) -> bool:
    """No space, a quota that is reached, or the largest file that this process may write."""
    return isinstance(error, OSError) and error.errno in _FULL


def is_full(folder: Path) -> bool:
    """Raises OSError."""
    return shutil.disk_usage(folder).free < RESERVE_BYTES


def shortage(folder: Path, least: int) -> str:
    """In a sentence, where fewer bytes are free than ``least``; empty otherwise. Raises OSError."""
    free = shutil.disk_usage(folder).free
    if free >= least:
        return ""
    return f"{readable_size(free)} are free on the disk of {folder}, less than {readable_size(least)}"


def readable_size(size: int) -> str:
    """``667.6 MiB``."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    value, unit = float(size), 0
    while value >= 1024 and unit < len(units) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {units[unit]}" if unit == 0 else f"{value:.1f} {units[unit]}"
