"""The conversations of ToolBoxV2's agents, from the checkpoints that they leave, ``{base}/{agent}/*.pkl``, without executing
them: each is read in a process of its own.

Names of folders come from outside. A link is never followed below the base, at the moment of opening too, so no checkpoint
can be read from elsewhere."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from rl.base.errors import BadFile, UsageError
from rl.base.files import descriptor_of
from rl.base.slugs import check_slug, printable
from rl.collect.capture.execution_trace import ExecutionTrace
from rl.collect.traces.imported import Rejected
from rl.from_systems.toolbox.checkpoints.extraction import moment
from rl.from_systems.toolbox.checkpoints.overlap import CheckpointContents, Conversation, merge_checkpoints

SUFFIX = ".pkl"
_NAMED_TIME = re.compile(r"_([0-9]{8}_[0-9]{6})\.pkl\Z")
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a named pipe would wait for ever


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
        with descriptor_of(path.parent, _FOLDER) as folder:
            descriptor = os.open(path.name, _FILE, dir_fd=folder)
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror or error}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadFile(path, "is not a regular file")
        yield file


def _files_of(folder: Path) -> list[CheckpointFile]:
    if folder.is_symlink() or not folder.is_dir():
        return []
    with descriptor_of(folder, _FOLDER) as descriptor, os.scandir(descriptor) as entries:
        files = [entry for entry in entries if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False)]
        checkpoints = [_file(folder, entry.name, entry.stat(follow_symlinks=False)) for entry in files]
    return sorted(checkpoints, key=lambda file: (file.modified, file.filename), reverse=True)


def _file(folder: Path, name: str, status: os.stat_result) -> CheckpointFile:
    return CheckpointFile(folder / name, name, status.st_size / 2**20, datetime.fromtimestamp(status.st_mtime, UTC))


WALL_SECONDS = 120
"""On a busy machine 20 seconds of CPU take a while."""
_ROOT = Path(__file__).resolve().parents[4]
# Isolated, without site-packages and without our environment: the standard library and this project. The packages are bare,
# because their front doors would import five times more than the reader needs.
_COMMAND = """
import sys, types
sys.path.append(sys.argv[1])
for name in ("rl.from_systems", "rl.from_systems.toolbox", "rl.from_systems.toolbox.checkpoints"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1] + "/" + name.replace(".", "/")]
from rl.from_systems.toolbox.checkpoints.reading import main
main()
"""


class AgentsFolder:
    """``base_dir`` is ToolBoxV2's data folder, or the folder ``Agents/checkpoint`` in it, with one folder for each agent.

    What cannot be read is left out; ``rejected`` says which, and why. Raises UsageError for what is not a folder, and for a
    name that no agent can have."""

    def __init__(self, base_dir: Path | str) -> None:
        inner = Path(base_dir) / "Agents" / "checkpoint"
        self.base_dir = inner if inner.is_dir() else Path(base_dir)
        if not self.base_dir.is_dir():
            raise UsageError(f"{self.base_dir} is not a folder; name ToolBoxV2's data folder, or its Agents/checkpoint")
        self._rejected: dict[str, Rejected] = {}

    @property
    def rejected(self) -> list[Rejected]:
        return list(self._rejected.values())

    def discover_all_agents(self) -> list[str]:
        """Those that have a checkpoint, sorted."""
        agents = []
        for name in sorted(entry.name for entry in os.scandir(self.base_dir) if entry.is_dir(follow_symlinks=False)):
            if _files_of(self.base_dir / name):
                try:
                    agents.append(check_slug(name))
                except UsageError:
                    self._reject(name, "the name of the folder is not usable as the name of an agent")
        return agents

    def list_checkpoints(self, agent: str) -> list[CheckpointFile]:
        """The newest first; an agent without a folder has none."""
        return _files_of(self.base_dir / check_slug(agent, "agent name"))

    def find_conversations(self, agent: str) -> list[Conversation]:
        """Each once, however many checkpoints hold it, the oldest first."""
        return merge_checkpoints(self.checkpoints(agent))

    def checkpoints(self, agent: str, since: datetime | None = None) -> Iterator[CheckpointContents]:
        """Oldest first, of the files that were changed since then; those that cannot be read are among the rejected."""
        for file in sorted(self.list_checkpoints(agent), key=lambda file: (file.written, file.modified, file.filename)):
            if since and file.modified < since:
                continue
            try:
                yield read_checkpoint(file)
            except BadFile as error:
                location = f"{error.location}: " if error.location else ""
                self._reject(f"{agent}/{file.filename}", f"{location}{error.problem}")

    def _reject(self, where: str, reason: str) -> None:
        self._rejected[where] = Rejected(printable(where), reason)


def read_checkpoint(file: CheckpointFile) -> CheckpointContents:
    """Raises BadFile."""
    with open_checkpoint(file.path) as handle:
        lines = read_lines(handle, file.path)
        about = next(lines)
        traces = tuple(ExecutionTrace.from_dict(line) for line in lines)
    named = file.named_time.replace(tzinfo=UTC) if file.named_time else None
    return CheckpointContents(file.filename, named or moment(about["timestamp"]) or file.modified, about, traces)


def read_lines(checkpoint: IO[bytes], name: object) -> Iterator[dict[str, Any]]:
    """About the checkpoint, then each conversation. Raises BadFile, which calls the file ``name``, before the first one."""
    command = [sys.executable, "-I", "-S", "-c", _COMMAND, str(_ROOT)]
    with TemporaryFile() as output, TemporaryFile() as errors:
        try:
            code = subprocess.run(
                command, stdin=checkpoint, stdout=output, stderr=errors, env={}, timeout=WALL_SECONDS, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            raise BadFile(name, f"took more than {WALL_SECONDS} seconds to read") from None
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            raise BadFile(name, "needs more time or memory than a checkpoint may take")
        if code:
            errors.seek(max(0, errors.seek(0, 2) - 4096))
            last = errors.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise BadFile(name, f"the process that read it ended with code {code}: {last[-1]}")
        yield from _lines(output, name)


def _lines(output: IO[bytes], name: object) -> Iterator[dict[str, Any]]:
    """The last line, which is short, is read first: a file that is refused halfway gives nothing."""
    output.seek(max(0, output.seek(0, 2) - 2**14))
    last = json.loads((output.read().splitlines() or [b""])[-1] or b"{}")
    if "refused" in last:
        raise BadFile(name, last["refused"], last["where"])
    if "end" not in last:
        raise BadFile(name, "the process that read it ended too early")
    output.seek(0)
    for line in output:
        if (value := json.loads(line)) != last:
            yield value
