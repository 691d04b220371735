"""States of texts in a file that a later process can go on with.

The file begins with a mark of the model that gave them. Each entry is a head (digest of the text, T, H, the kind of number,
digest of the states) and the states. What a killed process left half-written, or does not fit its digest, is not there.

Shapes: T tokens of a text, H the width of the model.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from io import SEEK_END, BufferedRandom
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rl.base.locks import try_lock

_HEAD: Final = struct.Struct("<16sIII8s28x")
"""64 bytes, as the mark has: numbers behind them lie at multiples of their size."""
_KINDS: Final = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


class _Entry(NamedTuple):
    begin: int
    tokens: int
    width: int
    kind: int
    digest: bytes

    @property
    def size(self) -> int:
        """Bytes."""
        return self.tokens * self.width * _KINDS[self.kind].itemsize


class StateFile:
    """Appended to, and read back from its pages."""

    def __init__(self, file: Path, mark: str) -> None:
        """``mark``: at most 64 characters that tell one model from another. States under another one are dropped, and so are
        those in a file that another process still writes."""
        self._file, self._mark = file, mark.encode().ljust(_HEAD.size)
        self._entries: dict[bytes, _Entry] = {}
        self._handle = _take(file)
        end = self._read_entries()
        self._of_earlier = {*self._entries}  # not compared with their digests yet
        self._handle.seek(end)
        self._handle.truncate()
        if not end:
            self._handle.write(self._mark)

    def __contains__(self, text: bytes) -> bool:
        key = _key(text)
        if key in self._of_earlier:
            self._of_earlier.remove(key)
            if _digest(self._bytes(self._entries[key])) != self._entries[key].digest:
                del self._entries[key]
        return key in self._entries

    def write(self, text: bytes, states: Tensor) -> None:
        """``states``: (T, H)."""
        tokens, width = states.shape
        values = states.contiguous().cpu().view(torch.uint8).numpy()
        entry = _Entry(self._handle.tell() + _HEAD.size, tokens, width, _KINDS.index(states.dtype), _digest(values))
        key = _key(text)
        self._handle.write(_HEAD.pack(key, *entry[1:]))
        self._handle.write(values.data)
        self._entries[key] = entry

    def read(self, text: bytes) -> Tensor:
        """(T, H)."""
        self._handle.flush()
        entry = self._entries[_key(text)]
        return torch.from_numpy(self._bytes(entry)).view(_KINDS[entry.kind]).view(entry.tokens, entry.width)

    def close(self, *, keep: bool) -> None:
        self._handle.close()
        if not keep:
            self._file.unlink(missing_ok=True)  # another attempt may have taken its place and ended

    def _bytes(self, entry: _Entry) -> NDArray[np.uint8]:
        return np.memmap(self._handle, np.uint8, "c", entry.begin, (entry.size,))

    def _read_entries(self) -> int:
        """Where the last whole one ends; 0 where the file is another model's."""
        size = self._handle.seek(0, SEEK_END)
        self._handle.seek(0)
        if self._handle.read(_HEAD.size) != self._mark:
            return 0
        end = _HEAD.size
        while len(head := self._handle.read(_HEAD.size)) == _HEAD.size:
            key, *about = _HEAD.unpack(head)
            if about[2] >= len(_KINDS) or (entry := _Entry(end + _HEAD.size, *about)).begin + entry.size > size:
                break
            self._entries[key] = entry
            end = self._handle.seek(entry.begin + entry.size)
        return end


def _take(file: Path) -> BufferedRandom:
    """Locked; a new one in the place of one that an attempt which was given up for dead still has."""
    handle = file.open("r+b" if file.exists() else "x+b")
    if not try_lock(handle.fileno()):
        handle.close()
        file.unlink()
        return _take(file)
    return handle


def _key(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def _digest(values: NDArray[np.uint8]) -> bytes:
    return blake2b(values.data, digest_size=8).digest()
