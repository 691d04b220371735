"""How much one pickle may ask for. Real ones stay far below; what is beyond is refused before it costs memory or time."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_INTEGER = 255
"""Bytes; turning a number of millions of digits into text takes minutes."""
LONGEST_NAME = 1000
"""Characters of the name of a module, or of a class in it."""


@dataclass(frozen=True, slots=True)
class Limits:
    file_bytes: int = 64 * 2**20
    opcodes: int = 5_000_000
    memo: int = 2_000_000
    """Entries, and the largest index."""
    stack: int = 500_000
    """Values that wait on the stack, and marks."""
    depth: int = 100
    """Levels of containers and objects within each other."""
    copied: int = 16_000_000
    """Items and characters that are copied when a known type is rebuilt: the memo lets three bytes of a file ask for
    another copy of everything."""


class Refused(Exception):
    """What is wrong with the opcode at hand; the reader adds which file, where, and which opcode."""
