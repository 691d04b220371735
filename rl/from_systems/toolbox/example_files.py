"""Examples of a data set to and from files, as JSON lines or as one JSON list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rl.base.errors import BadFile
from rl.base.files import replacing
from rl.base.leaves import leaf
from rl.base.names import require_known
from rl.base.outside_files import read_text
from rl.data_formatter.jsonl import json_lines

FORMATS = ("jsonl", "json")


class Example(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


Kind = TypeVar("Kind")


def save(examples: Sequence[Example], path: Path | str, format: str) -> None:
    """The file appears whole or not at all. Raises UsageError for an unknown format."""
    require_known("format", format, FORMATS)
    rows = [json.dumps(example.to_dict(), ensure_ascii=False) for example in examples]
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        file.write("".join(f"{row}\n" for row in rows) if format == "jsonl" else f"[{', '.join(rows)}]\n")


def load(path: Path | str, format: str, kind: type[Kind]) -> list[Kind]:
    """Raises BadFile, and UsageError for an unknown format."""
    require_known("format", format, FORMATS)
    source = Path(path)
    try:
        rows = [row for _, row in json_lines(source)] if format == "jsonl" else json.loads(read_text(source))
        return [kind(**row) for row in rows]
    except (TypeError, ValueError, RecursionError) as error:
        raise BadFile(source, f"holds no {kind.__name__}: {error}") from error


def to_hugging_face(examples: Sequence[Example]) -> Any:
    """A ``datasets.Dataset``. Raises UsageError where the package is not installed."""
    return leaf("datasets").Dataset.from_list([example.to_dict() for example in examples])
