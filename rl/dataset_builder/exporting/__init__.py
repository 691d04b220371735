"""Training data as files for other tools. A format is one class of a small file: a RowFormat.

Imports: base, data_formatter, models.
"""

from __future__ import annotations

from rl.base.leaves import import_name
from rl.base.names import require_known
from rl.dataset_builder.exporting.base import RowFormat

FORMATS: dict[str, str] = {
    "kto": "rl.dataset_builder.exporting.method_rows.KTO",
    "grpo": "rl.dataset_builder.exporting.method_rows.GRPO",
    "dpo": "rl.dataset_builder.exporting.method_rows.DPO",
    "reward": "rl.dataset_builder.exporting.method_rows.Reward",
    "openai": "rl.dataset_builder.exporting.messages.OpenAI",
    "sharegpt": "rl.dataset_builder.exporting.sharegpt.ShareGPT",
    "trl": "rl.dataset_builder.exporting.messages.TRL",
}
"""``rl.from_systems`` adds its own when the app starts."""


def row_format(name: str) -> type[RowFormat]:
    """Raises UsageError that lists the known formats."""
    require_known("format", name, FORMATS)
    row_format: type[RowFormat] = import_name(FORMATS[name])
    return row_format
