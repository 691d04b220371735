"""Several answers to one question with their rewards, for GRPO.

ToolBoxV2 invents a worse answer where there is only one, and writes the prompt in small letters. Neither is done here: a
group needs two real answers, and its prompt is as it was asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from rl.from_systems.toolbox.example_files import Examples
from rl.from_systems.toolbox.prompts import prompt_text
from rl.from_systems.toolbox.records import ExecutionTrace
from rl.from_systems.toolbox.reward_engine import RewardEngine

KEY_LENGTH = 200
"""Characters of a question that make it the same question."""


@dataclass
class GRPOExample:
    prompt: str
    completions: list[str]
    rewards: list[float]
    """Each as (reward - mean) / standard deviation of the group."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class GRPODatasetBuilder(Examples[GRPOExample]):
    kind = GRPOExample

    def __init__(
        self, reward_engine: RewardEngine | None = None, num_completions: int = 4, system_prompt: str = ""
    ) -> None:
        self.reward_engine = reward_engine or RewardEngine()
        self.num_completions, self.system_prompt = num_completions, system_prompt

    def group_traces(self, traces: Iterable[ExecutionTrace]) -> dict[str, list[ExecutionTrace]]:
        """By the question, whose case and white space do not count. The same answer counts once."""
        groups: dict[str, dict[str, ExecutionTrace]] = {}
        for trace in traces:
            if trace.final_response.strip():
                key = " ".join(trace.user_query.lower().split())[:KEY_LENGTH]
                groups.setdefault(key, {}).setdefault(trace.final_response.strip(), trace)
        return {key: list(answers.values()) for key, answers in groups.items()}

    def build_dataset(
        self,
        traces: Iterable[ExecutionTrace],
        min_group_size: int = 2,
        max_examples: int | None = None,
        include_singles: bool = False,
    ) -> list[GRPOExample]:
        """``include_singles`` changes nothing: an answer alone is better than none, and worse than none."""
        groups = (group for group in self.group_traces(traces).values() if len(group) >= max(2, min_group_size))
        return [self._example(group[: self.num_completions]) for group in groups][:max_examples]

    def get_statistics(self, examples: Sequence[GRPOExample]) -> dict[str, Any]:
        sizes = [len(example.completions) for example in examples]
        return {"total": len(sizes), "total_completions": sum(sizes), "avg_group_size": fmean(sizes) if sizes else 0.0}

    def _example(self, group: Sequence[ExecutionTrace]) -> GRPOExample:
        return GRPOExample(
            prompt_text(group[0].user_query, self.system_prompt),
            [trace.final_response for trace in group],
            self.reward_engine.compute_for_group(group),
        )
