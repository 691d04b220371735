"""What all processes that test at the same time share."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from rl.base.locks import exclusive_lock
from tests.deeds import WATCH


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """The path that ``make`` fills, in whichever process needs it first; the others wait. Tests do not change what is there.
    What it did to make it counts for all who use it, as with any fixture."""
    path = Path(os.environ["RATCHET_TEST_ROOT"], "once", name)
    finished = path.with_name(f"{name}.finished")
    with exclusive_lock(path.with_name(f"{name}.lock")):
        if not finished.exists():
            shutil.rmtree(path, ignore_errors=True)
            make(path)
            finished.write_text("\n".join(WATCH.doing[-1]))
    WATCH.doing[-1].update(filter(None, finished.read_text().split("\n")))
    return path
