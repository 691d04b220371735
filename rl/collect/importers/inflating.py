"""Packed files, within bounds."""

from __future__ import annotations

from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

from rl.base.errors import BadFile

MOST_TIMES, ALWAYS_FINE = 250, 64 * 2**20
"""How often its own size a packed file may unpack to, and the bytes that any may. Chat logs reach about 20."""


def most_unpacked(packed_size: int) -> int:
    return max(ALWAYS_FINE, MOST_TIMES * packed_size)


def too_much(path: Path) -> BadFile:
    return BadFile(path, f"unpacks to more than {MOST_TIMES} times its size; unpack it first if that is right")


class Inflated(RawIOBase):
    """The unpacked bytes of a file, until they are too many to be anything but a bomb. Raises BadFile."""

    def __init__(self, unpacked: BinaryIO, path: Path, packed_size: int) -> None:
        self._unpacked, self._path = unpacked, path
        self._left = most_unpacked(packed_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._unpacked.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise too_much(self._path)
        buffer[: len(data)] = data
        return len(data)
