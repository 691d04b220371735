"""How many answers of a server a caller may have under way in all processes of the site together.

Each answer holds the lock of a file, which the operating system lets go of when its holder dies.
"""

from __future__ import annotations

import os
import time
from collections.abc import Hashable
from hashlib import sha256
from typing import IO, Final

from django.conf import settings

from rl.base.locks import try_lock

KEPT_SECONDS: Final = 60.0
"""How long a slot is kept for whoever asked."""
LOOK_SECONDS: Final = 0.02
"""Between two looks whether another process has ended an answer of the caller."""


class Shares:
    def __init__(self, server: Hashable) -> None:
        self._folder = settings.DATA_DIR / "shares" / _digest(server)
        self._folder.mkdir(parents=True, exist_ok=True)

    def take(self, caller: Hashable, slots: int) -> IO[bytes] | None:
        """What is closed when the answer ends; None while the caller has all that he may have: every slot where nobody else
        asked lately, else all but one."""
        mine = _digest(caller)
        most = max(1, slots - 1) if self._others_asked(mine) else slots
        for number in range(most):
            file = (self._folder / f"{mine}-{number}").open("wb")
            if number == 0:
                os.utime(file.fileno())
            if try_lock(file.fileno()):
                return file
            file.close()
        return None

    def _others_asked(self, mine: str) -> bool:
        since = time.time() - KEPT_SECONDS
        firsts = [path for path in self._folder.glob("*-0") if path.name != f"{mine}-0"]
        return any(path.stat().st_mtime > since for path in firsts)


def _digest(value: Hashable) -> str:
    return sha256(repr(value).encode()).hexdigest()[:16]
