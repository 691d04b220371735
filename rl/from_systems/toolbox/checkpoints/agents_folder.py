"""The conversations of ToolBoxV2's agents, from the checkpoints that they leave, without executing them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile
from rl.base.slugs import printable
from rl.collect.capture.execution_trace import ExecutionTrace
from rl.collect.traces.imported import Rejected
from rl.from_systems.toolbox.checkpoints.folders import (
    CheckpointFile,
    agent_folders,
    checkpoint_files,
    checkpoint_folder,
    open_checkpoint,
)
from rl.from_systems.toolbox.checkpoints.lenient import moment
from rl.from_systems.toolbox.checkpoints.overlap import Checkpoint, Conversation, merge_checkpoints
from rl.from_systems.toolbox.checkpoints.process import read_lines
from rl.from_systems.toolbox.checkpoints.statistics import training_statistics

logger = logging.getLogger(__name__)


class AgentsFolder:
    """``base_dir`` is ToolBoxV2's data folder, or the folder ``Agents/checkpoint`` in it, with one folder for each agent.

    What cannot be read is left out; ``rejected`` says which, and why. Raises UsageError for what is not a folder, and for a
    name that no agent can have.
    """

    def __init__(self, base_dir: Path | str) -> None:
        self.base_dir = checkpoint_folder(Path(base_dir))
        self._rejected: dict[str, Rejected] = {}

    @property
    def rejected(self) -> list[Rejected]:
        return list(self._rejected.values())

    def discover_all_agents(self) -> list[str]:
        """Those that have a checkpoint."""
        agents, unusable = agent_folders(self.base_dir)
        for name in unusable:
            self._reject(name, "the name of the folder is not usable as the name of an agent")
        return agents

    def list_checkpoints(self, agent: str) -> list[CheckpointFile]:
        """The newest first."""
        return checkpoint_files(self.base_dir, agent)

    def load_all_traces(self, agent: str) -> list[ExecutionTrace]:
        """Each conversation once, however many checkpoints hold it, the oldest first."""
        conversations = self.find_conversations(agent)
        for rejected in self.rejected:
            if rejected.where.startswith(f"{agent}/"):
                logger.warning("%s: %s", rejected.where, rejected.reason)
        return [conversation.trace for conversation in conversations]

    def load_all_agents_traces(self) -> dict[str, list[ExecutionTrace]]:
        return {agent: self.load_all_traces(agent) for agent in self.discover_all_agents()}

    def get_training_statistics(self, agent: str | None = None) -> dict[str, Any]:
        """Training statistics of one agent, or of all when ``agent`` is None."""
        agents = self.discover_all_agents()
        names = agents if agent is None else [agent]
        by_agent = {name: self.load_all_traces(name) for name in names}
        return training_statistics(by_agent, agents, sum(len(self.list_checkpoints(name)) for name in names))

    def find_conversations(self, agent: str) -> list[Conversation]:
        """As ``load_all_traces``, with the file that holds each."""
        return merge_checkpoints(self.checkpoints(agent))

    def checkpoints(self, agent: str, since: datetime | None = None) -> Iterator[Checkpoint]:
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


def read_checkpoint(file: CheckpointFile) -> Checkpoint:
    """Raises BadFile."""
    with open_checkpoint(file.path) as handle:
        lines = read_lines(handle, file.path)
        about = next(lines)
        traces = tuple(ExecutionTrace.from_dict(line) for line in lines)
    named = file.named_time.replace(tzinfo=UTC) if file.named_time else None
    return Checkpoint(file.filename, named or moment(about["timestamp"]) or file.modified, about, traces)
