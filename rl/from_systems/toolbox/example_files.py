"""Examples of a data set to and from files, as JSON lines or as one JSON list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rl.base.errors import BadFile
from rl.base.files import replacing
from rl.base.leaves import leaf
from rl.base.names import require_known
from rl.base.outside_files import read_text
from rl.data_formatter.jsonl import json_lines

FORMATS = ("jsonl", "json")


class Example(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


Kind = TypeVar("Kind", bound=Example)


class Examples(Generic[Kind]):
    """To and from files, and as a data set of Hugging Face."""

    kind: type[Kind]

    def save_dataset(self, examples: Sequence[Kind], output_path: Path | str, format: str = "jsonl") -> None:
        """The file appears whole or not at all. Raises UsageError for an unknown format."""
        require_known("format", format, FORMATS)
        rows = [json.dumps(example.to_dict(), ensure_ascii=False) for example in examples]
        target = Path(output_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as file:
            file.write("".join(f"{row}\n" for row in rows) if format == "jsonl" else f"[{', '.join(rows)}]\n")

    def load_dataset(self, input_path: Path | str, format: str = "jsonl") -> list[Kind]:
        """Raises BadFile, and UsageError for an unknown format."""
        require_known("format", format, FORMATS)
        source = Path(input_path)
        try:
            rows = [row for _, row in json_lines(source)] if format == "jsonl" else json.loads(read_text(source))
            return [self.kind(**row) for row in rows]
        except (TypeError, ValueError, RecursionError) as error:
            raise BadFile(source, f"holds no {self.kind.__name__}: {error}") from error

    def to_hf_dataset(self, examples: Sequence[Kind]) -> Any:
        """A ``datasets.Dataset``. Raises UsageError where the package is not installed."""
        return leaf("datasets").Dataset.from_list([example.to_dict() for example in examples])
