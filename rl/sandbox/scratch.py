"""The folder of a program on a real disk: how much it holds, whatever the program does to hide it, and its removal."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_BLOCK_BYTES: Final = 512
_GONE: Final = (FileNotFoundError, ProcessLookupError)
_MEMORY: Final = "/dev/zero (deleted)"
"""What the kernel calls shared memory without a file: it counts as memory."""

FileId = tuple[int, int]
"""Device and inode."""


def usage(folder: Path, pids: Collection[int], known: Collection[FileId], file_bytes: int) -> tuple[int, int]:
    """Files and folders, and bytes: what is in the folder, and what has been removed and is still held open or mapped by
    one of the processes. A mapped file that is nowhere else counts ``file_bytes``, the most that it can have. ``known``
    files are not counted.

    Raises PermissionError when a process hides what it holds, or a path has become too long to look at.
    """
    entries, size = 0, 0
    for blocks in _blocks(folder):
        entries += 1
        size += blocks * _BLOCK_BYTES
    held: dict[FileId, int] = {}
    for pid in pids:
        with suppress(*_GONE):
            _add_held(pid, held, file_bytes)
    removed = {file: size for file, size in held.items() if file not in known}
    return entries + len(removed), size + sum(removed.values())


def remove(folder: Path) -> None:
    """Whatever its depth: what is nested is moved up, so that no path becomes long. Nobody may be using it any more."""
    moved = 0
    while folders := [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]:
        for each in folders:
            Path(each.path).chmod(stat.S_IRWXU)
            for entry in os.scandir(each.path):
                if entry.is_dir(follow_symlinks=False):
                    moved += 1
                    Path(entry.path).chmod(stat.S_IRWXU)
                    Path(entry.path).rename(folder / f".{moved}.ratchet")
                else:
                    Path(entry.path).unlink()
            Path(each.path).rmdir()
    shutil.rmtree(folder)


def _blocks(folder: Path) -> Iterator[int]:
    """Of every file and folder. A folder that was made without rights cannot be given any: it is empty."""
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    yield entry.stat(follow_symlinks=False).st_blocks
        except (*_GONE, PermissionError):
            continue
        except OSError as error:
            raise PermissionError(str(error)) from error


def _add_held(pid: int, held: dict[FileId, int], file_bytes: int) -> None:
    """Raises PermissionError for a process that may not be looked into; one that has ended holds nothing."""
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            with suppress(*_GONE):
                found = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                    held[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK_BYTES
        for file in _mapped_and_removed(pid):
            held.setdefault(file, file_bytes)
    except PermissionError:
        if not _has_ended(pid):
            raise


def _mapped_and_removed(pid: int) -> Iterator[FileId]:
    for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
        if line.endswith(" (deleted)"):
            _, _, _, device, inode, name = line.split(None, 5)
            if name != _MEMORY:
                major, minor = (int(part, 16) for part in device.split(":"))
                yield os.makedev(major, minor), int(inode)


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"
    except _GONE:
        return True
