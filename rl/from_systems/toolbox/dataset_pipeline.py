"""From the traces of one agent, in files and in checkpoints, to data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rl.from_systems.toolbox import places
from rl.from_systems.toolbox.checkpoint_loader import CheckpointLoader
from rl.from_systems.toolbox.collector import TraceCollector
from rl.from_systems.toolbox.grpo import GRPODatasetBuilder, GRPOExample
from rl.from_systems.toolbox.kto import KTODatasetBuilder, KTOExample
from rl.from_systems.toolbox.records import ExecutionTrace
from rl.from_systems.toolbox.reward_engine import RewardEngine


class DatasetPipeline:
    """``storage_path``: the folder of trace files; checkpoints are looked for in ``Agents/checkpoint`` beside it."""

    def __init__(self, agent_name: str, storage_path: Path | str | None = None, system_prompt: str = "") -> None:
        self.agent_name, self.system_prompt = agent_name, system_prompt
        self.trace_collector = TraceCollector(storage_path)
        folder = places.data_folder_of(storage_path) / places.CHECKPOINTS / agent_name
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
