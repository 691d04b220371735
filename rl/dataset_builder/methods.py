"""What builds the rows that training methods learn from; ``rl.config.methods`` lists their kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from rl.base.leaves import leaf_name
from rl.config import find_rows
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.groups import PromptRows, Source, Tally
from rl.models import Agent


class RowBuilder(Protocol):
    def __init__(self, agent: Agent, source: Source, options: DataOptions, tally: Tally) -> None: ...

    def prompts(self) -> Iterator[PromptRows]:
        """In the order of the prompts' keys; what is read and what is left out goes into the tally."""
        ...

    def problem(self, train: int, held_out: int) -> str:
        """After ``prompts``: why these numbers of rows are too few to train on; empty when they are enough."""
        ...


def row_builder(method: str) -> type[RowBuilder]:
    """Raises UsageError that lists the known kinds of rows."""
    builder: type[RowBuilder] = leaf_name(find_rows(method).builder)
    return builder
