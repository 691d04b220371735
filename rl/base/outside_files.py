"""Files that came from outside, before they are opened."""

from __future__ import annotations

import stat
from pathlib import Path

from rl.base.errors import BadFile


def refuse_device(path: Path | str) -> None:
    """Raises BadFile for a pipe, a socket or a device: it may have no end, or be waited for in vain, and cannot be read
    twice. What is not there is for whoever opens it."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise BadFile(
            path, "is not a file but a pipe or a device, which cannot be read twice; write it to a file first"
        )
