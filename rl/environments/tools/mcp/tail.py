"""Its last words."""

from __future__ import annotations

import asyncio
import os
from threading import Thread

_KEPT = 4096
_LONGEST_LINE = 300


class Tail:
    """A file for a program's error output, of which the last kilobytes are kept, however much it writes."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self.file = os.fdopen(write, "w")
        self._kept = b""
        self._thread = Thread(target=self._drain, args=(read,), name="mcp-stderr", daemon=True)
        self._thread.start()

    async def last_line(self) -> str:
        """The last line of a program that has ended; empty when it wrote none."""
        for _ in range(50):  # half a second, for children of it that live on and hold the pipe
            if not self._thread.is_alive():
                break
            await asyncio.sleep(0.01)
        lines = [text for text in self._kept.decode(errors="replace").splitlines() if text.strip()]
        line = "".join(letter if letter.isprintable() else " " for letter in lines[-1]) if lines else ""
        return line.strip()[:_LONGEST_LINE]

    def _drain(self, read: int) -> None:
        with os.fdopen(read, "rb", buffering=0) as pipe:
            while chunk := pipe.read(_KEPT):
                self._kept = (self._kept + chunk)[-_KEPT:]
