"""Parquet by pyarrow, which only this file imports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rl.base.files import staged_file
from rl.dataset_builder.exporting.base import Column

ROWS = 1000
"""A row group; what is in memory at a time."""

_MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
_FUNCTION = pa.struct([("name", pa.string()), ("arguments", pa.string())])
_CALL = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", _FUNCTION)])
_CHAT_MESSAGE = pa.struct([*_MESSAGE, ("tool_calls", pa.list_(_CALL)), ("tool_call_id", pa.string())])
_TURN = pa.struct([("from", pa.string()), ("value", pa.string())])
_TYPES: dict[Column, pa.DataType] = {
    "text": pa.string(),
    "number": pa.float64(),
    "true or false": pa.bool_(),
    "messages": pa.list_(_MESSAGE),
    "lists of messages": pa.list_(pa.list_(_MESSAGE)),
    "numbers": pa.list_(pa.float64()),
    "chat": pa.list_(_CHAT_MESSAGE),
    "turns": pa.list_(_TURN),
    "json": pa.string(),
}


def write(path: Path, columns: Mapping[str, Column], rows: Iterator[dict[str, Any]]) -> None:
    """A column that a row lacks is null in it."""
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
    as_text = [name for name, kind in columns.items() if kind == "json"]
    with staged_file(path) as partial, pq.ParquetWriter(partial, schema) as file:
        while chunk := [_flat(row, as_text) for row in islice(rows, ROWS)]:
            file.write_table(pa.Table.from_pylist(chunk, schema=schema))


def _flat(row: dict[str, Any], as_text: list[str]) -> dict[str, Any]:
    texts = {name: json.dumps(row[name], ensure_ascii=False) for name in as_text if name in row}
    return {**row, **texts}
