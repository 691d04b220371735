"""Files of rows. They appear whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from rl.base.errors import UsageError
from rl.base.files import replacing
from rl.base.leaves import leaf
from rl.dataset_builder.exporting.base import Column

Writer = Callable[[Path, Mapping[str, Column], Iterator[dict[str, Any]]], None]
FILE_FORMATS = ("jsonl", "parquet")


def file_format(path: Path | None, name: str | None) -> str:
    """The one that was named, else by the suffix. Raises UsageError."""
    if name:
        return name
    suffix = path.suffix.lower().removeprefix(".") if path else FILE_FORMATS[0]
    if suffix not in FILE_FORMATS:
        raise UsageError(f"{path}: name the file .jsonl or .parquet, or say which with --file-format")
    return suffix


def write(path: Path, format_name: str, columns: Mapping[str, Column], rows: Iterator[dict[str, Any]]) -> None:
    """Raises UsageError when the file cannot be written, and for a folder, a device or a pipe: it would be replaced."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise UsageError(
            f"{path} is not a file: rows are written to a file of their own, which is then moved to its place"
        )
    rows = chain((next(rows),), rows)  # the source refuses to be empty, before a folder is made
    writer: Writer = write_parquet if format_name == "parquet" else write_lines
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writer(path, columns, rows)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def write_lines(path: Path, columns: Mapping[str, Column], rows: Iterator[dict[str, Any]]) -> None:
    with replacing(path, "wb") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def write_parquet(path: Path, columns: Mapping[str, Column], rows: Iterator[dict[str, Any]]) -> None:
    """Raises UsageError on a machine without pyarrow."""
    leaf("rl.dataset_builder.exporting.parquet").write(path, columns, rows)
