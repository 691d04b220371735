"""The conversations of ToolBoxV2's agents, from the checkpoints that they leave, without executing them.

Each is read in a process of its own.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import fsum
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

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

logger = logging.getLogger(__name__)
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
from rl.from_systems.toolbox.checkpoints.child import main
main()
"""


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


def read_lines(checkpoint: IO[bytes], name: object) -> Iterator[dict[str, Any]]:
    """About the checkpoint, then each conversation. Raises BadFile, which calls the file ``name``, before the first one."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        code = _run(checkpoint, output, errors, name)
        if code:
            raise BadFile(name, _explain_exit(code, errors))
        yield from _lines(output, name)


def _run(checkpoint: IO[bytes], output: IO[bytes], errors: IO[bytes], name: object) -> int:
    command = [sys.executable, "-I", "-S", "-c", _COMMAND, str(_ROOT)]
    try:
        return subprocess.run(
            command, stdin=checkpoint, stdout=output, stderr=errors, env={}, timeout=WALL_SECONDS, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        raise BadFile(name, f"took more than {WALL_SECONDS} seconds to read") from None


def _lines(output: IO[bytes], name: object) -> Iterator[dict[str, Any]]:
    """The last line is read first: a file that is refused halfway gives nothing."""
    last = json.loads(_last_line(output) or b"{}")
    if "refused" in last:
        raise BadFile(name, last["refused"], last["where"])
    if "end" not in last:
        raise BadFile(name, "the process that read it ended too early")
    output.seek(0)
    for line in output:
        if (value := json.loads(line)) != last:
            yield value


def _last_line(output: IO[bytes]) -> bytes:
    """It is short."""
    size = output.seek(0, 2)
    output.seek(max(0, size - 2**14))
    return (output.read().splitlines() or [b""])[-1]


def _explain_exit(code: int, errors: IO[bytes]) -> str:
    if code == -signal.SIGXCPU or code == -signal.SIGKILL:
        return "needs more time or memory than a checkpoint may take"
    errors.seek(max(0, errors.seek(0, 2) - 4096))
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return f"the process that read it ended with code {code}: {lines[-1] if lines else 'it said nothing'}"


def training_statistics(
    by_agent: Mapping[str, Sequence[ExecutionTrace]], agents_discovered: Sequence[str], checkpoints_available: int
) -> dict[str, Any]:
    """Lengths are in characters. Two agents' sessions of one name are two."""
    traces = [trace for agent_traces in by_agent.values() for trace in agent_traces]
    tools = sorted({call.tool_name for trace in traces for call in trace.tool_calls})
    labeled = sum(trace.label is not None for trace in traces)
    return {
        "total_traces": len(traces),
        "unique_sessions": len(
            {(agent, trace.session_id) for agent, agent_traces in by_agent.items() for trace in agent_traces}
        ),
        "labeled_traces": labeled,
        "unlabeled_traces": len(traces) - labeled,
        "traces_with_tool_calls": sum(bool(trace.tool_calls) for trace in traces),
        "traces_with_reasoning": sum(bool(trace.reasoning_steps) for trace in traces),
        "unique_tools_used": len(tools),
        "tools_list": tools,
        "avg_query_length": _mean([len(trace.user_query) for trace in traces]),
        "avg_response_length": _mean([len(trace.final_response) for trace in traces]),
        "total_tokens_in": sum(trace.total_tokens_in for trace in traces),
        "total_tokens_out": sum(trace.total_tokens_out for trace in traces),
        "total_cost": fsum(trace.total_cost for trace in traces),
        "agents_discovered": list(agents_discovered),
        "checkpoints_available": checkpoints_available,
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
