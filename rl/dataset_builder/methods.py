"""The kinds of rows that training methods learn from; most kinds are named after their method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from rl.base.errors import UsageError
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.groups import PromptRows, Source, Tally
from rl.dataset_builder.rows.judged import GroupRows, LabelledRows, RewardRows
from rl.dataset_builder.rows.pairs import PairRows
from rl.dataset_builder.rows.prompts import PromptsOnly
from rl.dataset_builder.rows.rewards import RewardPairs
from rl.dataset_builder.rows.tasks import TaskRows
from rl.models import Agent


class RowBuilder(Protocol):
    def __init__(self, agent: Agent, source: Source, options: DataOptions, tally: Tally) -> None: ...

    def prompts(self) -> Iterator[PromptRows]:
        """In the order of the prompts' keys; what is read and what is left out goes into the tally."""
        ...

    def problem(self, train: int, held_out: int) -> str:
        """After ``prompts``: why these numbers of rows are too few to train on; empty when they are enough."""
        ...


ROW_BUILDERS: dict[str, type[RowBuilder]] = {
    "dpo": PairRows,
    "kto": LabelledRows,
    "grpo": GroupRows,
    "reward": RewardRows,
    "reward_model": RewardPairs,
    "prompts": PromptsOnly,
    "agent": TaskRows,
}


def row_builder(method: str) -> type[RowBuilder]:
    """Raises UsageError that lists the known methods."""
    if method not in ROW_BUILDERS:
        raise UsageError(f"no rows are known for method {method!r}; known: {', '.join(ROW_BUILDERS)}")
    return ROW_BUILDERS[method]
