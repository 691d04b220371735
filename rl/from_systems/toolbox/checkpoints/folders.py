"""Which checkpoints there are: ``{base}/{agent}/*.pkl``.

Names of folders come from outside. A link is never followed below the base, at the moment of opening too, so no checkpoint
can be read from elsewhere.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from rl.base.errors import BadFile, UsageError
from rl.base.slugs import check_slug

SUFFIX = ".pkl"
_NAMED_TIME = re.compile(r"_([0-9]{8}_[0-9]{6})\.pkl\Z")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a named pipe would wait for ever


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    path: Path
    filename: str
    size_mb: float
    modified: datetime
    """In UTC."""

    @property
    def named_time(self) -> datetime | None:
        """The time in the name, which has no zone: ``agent_checkpoint_20260301_140500.pkl``."""
        digits = _NAMED_TIME.search(self.filename)
        try:
            return datetime.fromisoformat(digits[1].replace("_", "T")) if digits else None
        except ValueError:
            return None

    @property
    def written(self) -> datetime:
        """As the clock on the wall had it, without a zone, to tell which of two is the older."""
        return self.named_time or self.modified.astimezone().replace(tzinfo=None)


def checkpoint_folder(base: Path) -> Path:
    """ToolBoxV2's data folder, or the folder of agents in it. Raises UsageError for what is not a folder."""
    inner = base / "Agents" / "checkpoint"
    folder = inner if inner.is_dir() else base
    if not folder.is_dir():
        raise UsageError(f"{base} is not a folder; name ToolBoxV2's data folder, or its Agents/checkpoint")
    return folder


def agent_folders(base: Path) -> tuple[list[str], list[str]]:
    """Names of agents with checkpoints, and of folders whose name no agent can have; both sorted."""
    names = sorted(entry.name for entry in os.scandir(base) if entry.is_dir(follow_symlinks=False))
    with_files = [name for name in names if _files_of(base / name)]
    good = [name for name in with_files if _is_slug(name)]
    return good, [name for name in with_files if name not in good]


def checkpoint_files(base: Path, agent: str) -> list[CheckpointFile]:
    """The newest first. Raises UsageError for a name that no agent can have; an agent without a folder has none."""
    return _files_of(base / check_slug(agent, "agent name"))


def named_file(path: Path) -> CheckpointFile:
    """One that a person named, links and all. Raises BadFile."""
    try:
        target = path.resolve(strict=True)
        return _file(target.parent, target.name, target.stat())
    except (OSError, RuntimeError) as error:  # a loop of links
        raise BadFile(path, f"cannot be read: {getattr(error, 'strerror', '') or error}") from error


@contextmanager
def open_checkpoint(path: Path) -> Iterator[IO[bytes]]:
    """Neither the file nor its folder may be a link. Raises BadFile."""
    try:
        folder = os.open(path.parent, _FOLDER | os.O_NOFOLLOW)
        try:
            descriptor = os.open(path.name, _FILE, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror or error}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadFile(path, "is not a regular file")
        yield file


def _files_of(folder: Path) -> list[CheckpointFile]:
    try:
        descriptor = os.open(folder, _FOLDER | os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        with os.scandir(descriptor) as entries:
            files = [entry for entry in entries if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False)]
            checkpoints = [_file(folder, entry.name, entry.stat(follow_symlinks=False)) for entry in files]
        return sorted(checkpoints, key=lambda file: (file.modified, file.filename), reverse=True)
    finally:
        os.close(descriptor)


def _file(folder: Path, name: str, status: os.stat_result) -> CheckpointFile:
    return CheckpointFile(folder / name, name, status.st_size / 2**20, datetime.fromtimestamp(status.st_mtime, UTC))


def _is_slug(name: str) -> bool:
    try:
        check_slug(name)
    except UsageError:
        return False
    return True
