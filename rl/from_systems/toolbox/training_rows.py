"""Examples of ToolBoxV2 as rows that Ratchet's methods train on: prompts and answers are chat messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from rl.base.errors import UsageError
from rl.base.files import replacing
from rl.base.names import require_known
from rl.data_formatter.runs import as_answer_messages
from rl.from_systems.toolbox.prompts import messages_of

Row = Mapping[str, Any]


def kto_row(row: Row) -> dict[str, Any]:
    return {"completion": as_answer_messages(row["completion"]), "label": bool(row["label"])}


def grpo_row(row: Row) -> dict[str, Any]:
    return {"completions": [as_answer_messages(text) for text in row["completions"]], "rewards": list(row["rewards"])}


def prompt_row(row: Row) -> dict[str, Any]:
    """For answers that are generated while training."""
    return {"details": {}}


ROWS: Final[Mapping[str, Callable[[Row], dict[str, Any]]]] = {
    "kto": kto_row,
    "grpo": grpo_row,
    "prompts": prompt_row,
}


def write_rows(dataset: Any, kind: str, path: Path) -> int:
    """``dataset``: examples, dictionaries, or a ``datasets.Dataset``. How many were written. Raises UsageError for another
    method, or a row without a column that it needs."""
    require_known("method", kind, ROWS)
    count = 0
    with replacing(path) as file:
        for count, row in enumerate(_dictionaries(dataset), start=1):
            try:
                made = {"prompt": messages_of(row["prompt"]), **ROWS[kind](row)}
            except (KeyError, TypeError) as error:
                raise UsageError(f"row {count} is not one of {kind}: it lacks {error}") from None
            file.write(json.dumps(made, ensure_ascii=False) + "\n")
    return count


def _dictionaries(dataset: Iterable[Any]) -> Iterable[Row]:
    return (row if isinstance(row, Mapping) else row.to_dict() for row in dataset)
