"""From the traces of one agent, in files and in checkpoints, to data sets.

Checkpoints by ToolBoxV2's calls. They are read as data, in a process of their own, and never executed."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from math import fsum
from pathlib import Path
from typing import Any

from rl.collect.capture import execution_trace as trace_file
from rl.collect.capture.trace_files import statistics
from rl.collect.traces.imported import Rejected
from rl.from_systems import toolbox
from rl.from_systems.toolbox.checkpoints.agents_folder import AgentsFolder, named_file, read_checkpoint
from rl.from_systems.toolbox.checkpoints.overlap import CheckpointContents, merge_checkpoints
from rl.from_systems.toolbox.datasets import GRPODatasetBuilder, GRPOExample, KTODatasetBuilder, KTOExample, prompt_text
from rl.from_systems.toolbox.records import ExecutionTrace, TraceCollector, from_core
from rl.from_systems.toolbox.reward_engine import RewardEngine


class DatasetPipeline:
    """``storage_path``: the folder of trace files; checkpoints are looked for in ``Agents/checkpoint`` beside it."""

    def __init__(self, agent_name: str, storage_path: Path | str | None = None, system_prompt: str = "") -> None:
        self.agent_name, self.system_prompt = agent_name, system_prompt
        self.trace_collector = TraceCollector(storage_path)
        data = Path(storage_path).absolute().parent if storage_path is not None else toolbox.data_folder()
        folder = data / toolbox.CHECKPOINTS / agent_name
        self.checkpoint_loader = CheckpointLoader(agent_name, folder)
        self.reward_engine = RewardEngine()
        self.kto_builder = KTODatasetBuilder(self.reward_engine, system_prompt=system_prompt)
        self.grpo_builder = GRPODatasetBuilder(self.reward_engine, system_prompt=system_prompt)

    def collect_all_traces(self) -> list[ExecutionTrace]:
        """What a file and a checkpoint both tell is there once, as the file tells it."""
        traces = [*self.trace_collector.load_traces(), *self.checkpoint_loader.load_all_traces()]
        once: dict[tuple[str, str, str], ExecutionTrace] = {}
        for trace in traces:
            once.setdefault((trace.session_id, trace.user_query, trace.final_response), trace)
        return list(once.values())

    def build_kto_dataset(self, output_path: Path | str, **options: Any) -> list[KTOExample]:
        """Writes JSON lines. ``options``: of ``KTODatasetBuilder.build_dataset``."""
        examples = self.kto_builder.build_dataset(self.collect_all_traces(), **options)
        self.kto_builder.save_dataset(examples, output_path)
        return examples

    def build_grpo_dataset(self, output_path: Path | str, **options: Any) -> list[GRPOExample]:
        """Writes JSON lines. ``options``: of ``GRPODatasetBuilder.build_dataset``."""
        examples = self.grpo_builder.build_dataset(self.collect_all_traces(), **options)
        self.grpo_builder.save_dataset(examples, output_path)
        return examples

    def build_prompts(self) -> list[dict[str, str]]:
        """``prompt``: each question once, for answers that are generated while training."""
        queries = dict.fromkeys(trace.user_query for trace in self.collect_all_traces() if trace.user_query.strip())
        return [{"prompt": prompt_text(query, self.system_prompt)} for query in queries]

    def get_unlabeled_for_review(self, limit: int = 50) -> list[ExecutionTrace]:
        return self.trace_collector.get_unlabeled_traces(limit)

    def label_trace(self, trace_id: str, label: bool, notes: str = "") -> None:
        """Raises ValueError for a trace that is not in the files."""
        self.trace_collector.label_trace(trace_id, label, notes)

    def get_pipeline_statistics(self) -> dict[str, Any]:
        sizes = [checkpoint["size_mb"] for checkpoint in self.checkpoint_loader.list_checkpoints()]
        return {
            "collector": self.trace_collector.get_statistics(),
            "checkpoints": {"count": len(sizes), "total_size_mb": sum(sizes)},
        }


class CheckpointLoader:
    """``checkpoint_path``: the folder of the agent, or without ``agent_name`` the one with a folder for each agent; by
    default in ``~/.toolbox/Agents/checkpoint``. ``rejected`` says which files could not be read, and why."""

    def __init__(self, agent_name: str | None = None, checkpoint_path: Path | str | None = None) -> None:
        base = toolbox.data_folder() / toolbox.CHECKPOINTS
        if agent_name:
            path = Path(checkpoint_path) if checkpoint_path else base / agent_name
            self.checkpoint_path, self._folders, self._only = path, path.absolute().parent, path.absolute().name
        else:
            self.checkpoint_path = Path(checkpoint_path) if checkpoint_path else base
            self._folders, self._only = self.checkpoint_path, ""
        self.agent_name = agent_name

    @property
    def rejected(self) -> list[Rejected]:
        return self._agents_folder.rejected if self._folders.is_dir() else []

    def list_checkpoints(self) -> list[dict[str, Any]]:
        """Newest first: ``path``, ``filename``, ``size_mb``, ``modified`` (ISO 8601)."""
        files = [file for agent in self._names() for file in self._agents_folder.list_checkpoints(agent)]
        return [
            {
                "path": str(file.path),
                "filename": file.filename,
                "size_mb": file.size_mb,
                "modified": file.modified.isoformat(),
            }
            for file in sorted(files, key=lambda file: file.modified, reverse=True)
        ]

    def load_checkpoint(self, path: Path | str) -> CheckpointContents:
        """What one file holds, for ``extract_traces_from_checkpoint``. Raises BadFile."""
        return read_checkpoint(named_file(Path(path)))

    def extract_traces_from_checkpoint(
        self, checkpoint: CheckpointContents, agent_name: str | None = None
    ) -> list[ExecutionTrace]:
        """``agent_name`` is not needed: no trace says whose it is."""
        return [from_core(conversation.trace) for conversation in merge_checkpoints([checkpoint])]

    def discover_all_agents(self) -> list[str]:
        return self._agents_folder.discover_all_agents() if self._folders.is_dir() else []

    def load_all_traces(self, deduplicate: bool = True, max_age_hours: float | None = None) -> list[ExecutionTrace]:
        """``max_age_hours``: of the checkpoints that are looked at."""
        by_agent = (self._load(name, deduplicate, max_age_hours) for name in self._names())
        return [from_core(trace) for traces in by_agent for trace in traces]

    def load_all_agents_traces(self, deduplicate: bool = True) -> dict[str, list[ExecutionTrace]]:
        """Agents without traces are left out."""
        by_agent = {name: list(self._load(name, deduplicate)) for name in self.discover_all_agents()}
        return {name: [from_core(trace) for trace in traces] for name, traces in by_agent.items() if traces}

    def get_training_statistics(self) -> dict[str, Any]:
        """Lengths are in characters, sessions are counted by agent. Three figures only where there is no trace."""
        traces = [(name, trace) for name in self._names() for trace in self._load(name, True)]
        about = {"agents_discovered": self.discover_all_agents(), "checkpoints_available": len(self.list_checkpoints())}
        if not traces:
            return {"total_traces": 0, **about}
        return {**statistics(traces), "total_cost": fsum(trace.total_cost for _, trace in traces), **about}

    def generate_synthetic_tasks(self, num_tasks: int = 100) -> list[dict[str, str]]:
        """``prompt``, ``category`` and ``source``, each question once, from what went well: liked, or with tasks that were
        completed."""
        traces = self.load_all_traces()
        good = (trace for trace in traces if trace.label or (trace.label is None and trace.tasks_completed))
        questions = {trace.user_query: trace for trace in good if trace.user_query.strip()}
        tasks = ({"prompt": query, "category": category(trace), "source": SOURCE} for query, trace in questions.items())
        return list(islice(tasks, max(0, num_tasks)))

    def _names(self) -> list[str]:
        """Folders of agents. A loader of one agent has its own, under whatever name."""
        if not self._only:
            return self.discover_all_agents()
        return [self._only] if self.checkpoint_path.is_dir() else []

    def _load(
        self, name: str, deduplicate: bool, max_age_hours: float | None = None
    ) -> Iterator[trace_file.ExecutionTrace]:
        since = None if max_age_hours is None else datetime.now().astimezone() - timedelta(hours=max_age_hours)
        checkpoints = self._agents_folder.checkpoints(name, since)
        groups = [checkpoints] if deduplicate else ([checkpoint] for checkpoint in checkpoints)
        return (conversation.trace for group in groups for conversation in merge_checkpoints(group))

    @cached_property
    def _agents_folder(self) -> AgentsFolder:
        return AgentsFolder(self._folders)


SOURCE = "checkpoint_derived"
_CODE = re.compile(r"\b(?:code|function|class|script|python|javascript|regex|bug|unit test)\b", re.IGNORECASE)
_SHELL = re.compile(r"\b(?:shell|bash|terminal|command line|directory|folder)\b", re.IGNORECASE)
_SHELL_TOOL = re.compile(r"shell|command|exec|terminal", re.IGNORECASE)


def category(trace: ExecutionTrace) -> str:
    """code_tasks, shell_tasks, interaction_tasks (talk that needs no tool), else general_tasks."""
    if "```" in trace.final_response or _CODE.search(trace.user_query):
        return "code_tasks"
    if _SHELL.search(trace.user_query) or any(_SHELL_TOOL.search(call.tool_name) for call in trace.tool_calls):
        return "shell_tasks"
    return "general_tasks" if trace.tool_calls else "interaction_tasks"
