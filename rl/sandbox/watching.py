"""Reads what a running program writes, never more than allowed, and ends it when a limit is reached."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rl.sandbox import tree
from rl.sandbox.contract import WATCH_SECONDS, Limits, Stopped

_CHUNK: Final = 65536


@dataclass(slots=True)
class Stream:
    """Keeps the first ``limit`` bytes of a pipe."""

    descriptor: int
    limit: int
    data: bytearray = field(default_factory=bytearray)
    overflowed: bool = False

    def read(self) -> bool:
        """What there is now; False at the end of the pipe."""
        chunk = os.read(self.descriptor, _CHUNK)
        room = self.limit - len(self.data)
        self.data += chunk[:room]
        self.overflowed |= len(chunk) > room
        return bool(chunk)


@dataclass(slots=True)
class Watch:
    """One run. ``look`` says what the box uses and holds now, ``kill`` ends all of it at once."""

    limits: Limits
    kill: Callable[[], None]
    look: Callable[[], tuple[tree.Usage, int]]
    """Usage of the tree, and the number of its files."""
    stopped: Stopped = ""
    _seen: float = 0.0
    """CPU seconds of the tree at the last look."""
    _lost: float = 0.0
    """Those of processes that have ended and that nobody waited for: the kernel forgets them."""

    def follow(self, *streams: Stream, until: Stream) -> None:
        """To the end of all, which is when the last process that holds them is gone. ``until`` ends with the program: then
        what it left behind is killed.
        """
        now = time.monotonic()
        deadline, next_look = now + self.limits.wall_seconds, now + WATCH_SECONDS
        with selectors.DefaultSelector() as selector:
            for stream in (*streams, until):
                selector.register(stream.descriptor, selectors.EVENT_READ, stream)
            while selector.get_map():
                for key, _ in selector.select(max(0.0, min(deadline, next_look) - time.monotonic())):
                    if not key.data.read():
                        selector.unregister(key.fd)
                        if key.data is until:
                            self.kill()
                now = time.monotonic()
                self._stop("wall", now >= deadline)
                self._stop("output", any(stream.overflowed for stream in streams))
                if now >= next_look:
                    next_look = now + WATCH_SECONDS
                    self._look()
                if self.stopped:
                    deadline = next_look = now + WATCH_SECONDS

    def _look(self) -> None:
        used, files = self.look()
        if used.cpu_seconds < self._seen:  # or what ended just then is not yet in its parent's sum
            used, files = self.look()
        self._lost += max(0.0, self._seen - used.cpu_seconds)
        self._seen = used.cpu_seconds
        self._stop("memory", used.memory_bytes > self.limits.memory_bytes)
        self._stop("cpu", used.cpu_seconds + self._lost > self.limits.cpu_seconds)
        self._stop("files", files > self.limits.files)

    def _stop(self, reason: Stopped, reached: bool) -> None:
        if reached and not self.stopped:
            self.stopped = reason
            self.kill()
