"""Training data as files for other tools. A format is one class of a small file: a RowFormat.

Imports: base, data_formatter, models."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rl.base.leaves import import_name
from rl.base.names import require_known
from rl.base.records import JudgedAnswer
from rl.dataset_builder.frozen.splitting import Split
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.groups import Tally
from rl.models import Agent

Column = Literal["text", "number", "true or false", "messages", "lists of messages", "numbers", "turns", "json"]
"""What a column of Parquet holds. ``messages``: with OpenAI's tool calls, whose arguments are JSON text; ``turns``:
ShareGPT's; ``json``: any value, as JSON text. JSON lines hold the values as they are."""

BELOW = "reward below the least one asked for"
SILENT = "nobody said anything of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFilters:
    """Which answers. ``data`` says how pairs are built and what is held out."""

    data: DataOptions
    min_reward: float | None = None
    """Answers without a reward do not reach it."""
    require_feedback: bool = False
    """Only what a person rated, compared or edited."""


@dataclass(frozen=True, slots=True)
class ExportedRow:
    held_out: bool
    values: dict[str, Any]


class RowFormat:
    columns: ClassVar[dict[str, Column]]
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """The least and the highest that ``min_reward`` may be."""

    def __init__(self, agent: Agent, filters: ExportFilters, tally: Tally) -> None:
        """What is read and what is left out goes into the tally. Raises UsageError for a filter that makes no sense here."""
        self._agent, self._filters, self._tally = agent, filters, tally
        self._split = Split(agent, filters.data.val_split)

    def rows(self) -> Iterator[ExportedRow]:
        """In the order of the prompts' keys."""
        raise NotImplementedError

    def _keeps(self, answer: JudgedAnswer) -> bool:
        least = self._filters.min_reward
        if self._filters.require_feedback and not (answer.ratings or answer.preferences):
            self._tally.skipped[SILENT] += 1
        elif least is not None and (answer.reward is None or answer.reward < least):
            self._tally.skipped[BELOW] += 1
        else:
            return True
        return False

    def _row(self, split_key: str, values: dict[str, Any]) -> ExportedRow:
        return ExportedRow(self._split.is_held_out(split_key), values)


FORMATS: dict[str, str] = {
    "kto": "rl.dataset_builder.exporting.method_rows.KTO",
    "grpo": "rl.dataset_builder.exporting.method_rows.GRPO",
    "dpo": "rl.dataset_builder.exporting.method_rows.DPO",
    "reward": "rl.dataset_builder.exporting.method_rows.Reward",
    "openai": "rl.dataset_builder.exporting.messages.OpenAI",
    "sharegpt": "rl.dataset_builder.exporting.messages.ShareGPT",
    "trl": "rl.dataset_builder.exporting.messages.TRL",
}
"""``rl.from_systems`` adds its own when the app starts."""


def row_format(name: str) -> type[RowFormat]:
    """Raises UsageError that lists the known formats."""
    require_known("format", name, FORMATS)
    row_format: type[RowFormat] = import_name(FORMATS[name])
    return row_format
