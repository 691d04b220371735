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
MOST_ENTRIES: Final = 200_000
"""The most entries of a folder that is looked at."""

FileId = tuple[int, int]
"""Device and inode."""


def usage(folder: Path, pids: Collection[int], known: Collection[FileId], file_bytes: int) -> tuple[int, int]:
    """Files and folders, and bytes: what is in the folder, and what has been removed and is still held open or mapped by
    one of the processes. A mapped file that is nowhere else counts ``file_bytes``, the most that it can have. ``known``
    files are not counted.

    Raises PermissionError when a process hides what it holds, or there is too much, or too long a path, to look at.
    """
    entries, size = 0, 0
    for blocks in _blocks(folder):
        entries += 1
        size += blocks * _BLOCK_BYTES
        if entries > MOST_ENTRIES:
            raise PermissionError(f"more than {MOST_ENTRIES} files and folders")
    held: dict[FileId, int] = {}
    for pid in pids:
        with suppress(*_GONE):
            _add_held(pid, held, file_bytes)
    removed = {file: size for file, size in held.items() if file not in known}
    return entries + len(removed), size + sum(removed.values())


def remove(folder: Path) -> None:
    """Removes a folder of any depth that nobody uses any more: what is nested is moved up, so no path gets long."""
    moved = 0
    while folders := [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]:
        for nested in folders:
            Path(nested.path).chmod(stat.S_IRWXU)
            for entry in os.scandir(nested.path):
                if entry.is_dir(follow_symlinks=False):
                    moved += 1
                    Path(entry.path).chmod(stat.S_IRWXU)
                    Path(entry.path).rename(folder / f".{moved}.ratchet")
                else:
                    Path(entry.path).unlink()
            Path(nested.path).rmdir()
    shutil.rmtree(folder)


def _blocks(folder: Path) -> Iterator[int]:
    """Disk blocks of each file and folder. A folder that was made without rights cannot be given any: it is empty. What
    is a link by the time that it is opened may lead anywhere: MOST_ENTRIES ends that walk."""
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    yield entry.stat(follow_symlinks=False).st_blocks
        except (*_GONE, NotADirectoryError, PermissionError):
            continue
        except OSError as error:
            raise PermissionError(str(error)) from error


def _add_held(pid: int, held: dict[FileId, int], file_bytes: int) -> None:
    """By each thread, which may have a table of files of its own, and may live longer than the process's first.

    Raises PermissionError for one that may not be looked into; one that has ended holds nothing.
    """
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        task = f"/proc/{pid}/task/{thread}"
        try:
            with suppress(*_GONE):
                _add_held_by(task, held, file_bytes)
        except PermissionError:
            if not _has_ended(task):
                raise


def _add_held_by(task: str, held: dict[FileId, int], file_bytes: int) -> None:
    for name in os.listdir(f"{task}/fd"):  # noqa: PTH208
        with suppress(*_GONE):
            status = os.stat(f"{task}/fd/{name}")  # noqa: PTH116
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                held[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK_BYTES
    for file in _mapped_and_removed(task):
        held.setdefault(file, file_bytes)


def _mapped_and_removed(task: str) -> Iterator[FileId]:
    for line in Path(f"{task}/maps").read_text(errors="replace").splitlines():
        if line.endswith(" (deleted)"):
            _, _, _, device, inode, _ = line.split(None, 5)
            major, minor = (int(part, 16) for part in device.split(":"))
            yield os.makedev(major, minor), int(inode)


def _has_ended(task: str) -> bool:
    try:
        return Path(f"{task}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"
    except _GONE:
        return True
