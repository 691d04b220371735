"""The conversations of ToolBoxV2's agents, from the checkpoints that they leave, without executing them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile
from rl.collect.capture.execution_trace import ExecutionTrace
from rl.collect.checkpoints.folders import CheckpointFile, agent_folders, checkpoint_files, checkpoint_folder, opened
from rl.collect.checkpoints.lenient import moment, printable
from rl.collect.checkpoints.overlap import Checkpoint, Found, combined
from rl.collect.checkpoints.process import told
from rl.collect.checkpoints.statistics import training_statistics
from rl.collect.traces.imported import Rejected

logger = logging.getLogger(__name__)


class CheckpointLoader:
    """``base_dir`` is ToolBoxV2's data folder, or the folder ``Agents/checkpoint`` in it, with one folder for each agent.

    What cannot be read is left out; ``rejected`` tells which, and why. Raises UsageError for what is no folder, and for a
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
        """Each conversation once, however many checkpoints tell it, the oldest first."""
        found = self.found(agent)
        for one in (one for one in self.rejected if one.where.startswith(f"{agent}/")):
            logger.warning("%s: %s", one.where, one.reason)
        return [one.trace for one in found]

    def load_all_agents_traces(self) -> dict[str, list[ExecutionTrace]]:
        return {agent: self.load_all_traces(agent) for agent in self.discover_all_agents()}

    def get_training_statistics(self, agent: str | None = None) -> dict[str, Any]:
        """Of one agent, or of all."""
        agents = self.discover_all_agents()
        chosen = agents if agent is None else [agent]
        by_agent = {name: self.load_all_traces(name) for name in chosen}
        return training_statistics(by_agent, agents, sum(len(self.list_checkpoints(name)) for name in chosen))

    def found(self, agent: str) -> list[Found]:
        """As ``load_all_traces``, with the file that tells each."""
        return combined(self._checkpoints(agent))

    def _checkpoints(self, agent: str) -> Iterator[Checkpoint]:
        for file in reversed(self.list_checkpoints(agent)):
            try:
                yield read_checkpoint(file)
            except BadFile as error:
                location = f"{error.location}: " if error.location else ""
                self._reject(f"{agent}/{file.filename}", f"{location}{error.problem}")

    def _reject(self, where: str, reason: str) -> None:
        self._rejected[where] = Rejected(printable(where), reason)


def read_checkpoint(file: CheckpointFile) -> Checkpoint:
    """Raises BadFile."""
    with opened(file.path) as handle:
        lines = told(handle, file.path)
        about = next(lines)
        traces = tuple(ExecutionTrace.from_dict(line) for line in lines)
    return Checkpoint(file.filename, moment(about["timestamp"]) or file.modified, about, traces)
