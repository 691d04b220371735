"""Files that came from outside: plain ones only, and no more of them than they may hold.

A pipe, a socket or a device may have no end, or be waited for in vain."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rl.base.errors import BadFile

LARGEST_TEXT = 16 * 2**20
"""Bytes of a file that is read whole."""


def refuse_device(path: Path | str) -> None:
    """Raises BadFile for what is there and is neither a file nor a folder."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise BadFile(
            path, "is not a file but a pipe or a device, which cannot be read twice; write it to a file first"
        )


def refuse_devices_in(folder: Path) -> None:
    """Raises BadFile: the libraries open what has the right name."""
    for path in folder.iterdir():
        refuse_device(path)


@contextmanager
def open_outside(path: Path, buffering: int = -1) -> Iterator[BinaryIO]:
    """Raises BadFile, for reading that fails within the block too."""
    refuse_device(path)
    try:
        with path.open("rb", buffering) as file:
            yield file
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror or error}") from error


def read_bytes(path: Path, most: int = LARGEST_TEXT, advice: str = "") -> bytes:
    """All of a file. ``advice`` follows where it has more than ``most`` bytes. Raises BadFile."""
    with open_outside(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        size = f"{most // 2**20} MiB" if most >= 2**20 else f"{most // 2**10} KiB"
        raise BadFile(path, f"larger than {size}{advice}")
    return content


def read_text(path: Path, most: int = LARGEST_TEXT, advice: str = "") -> str:
    """The same as text; a byte order mark is left out. Raises BadFile."""
    try:
        return read_bytes(path, most, advice).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(path, f"is not UTF-8 text, from byte {error.start} on") from None
