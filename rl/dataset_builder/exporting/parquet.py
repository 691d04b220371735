"""Parquet by pyarrow, which only this file imports."""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rl.base.files import staged_file
from rl.dataset_builder.exporting import Column

ROWS = 1000
"""A row group; what is in memory at a time."""

_FUNCTION = pa.struct([("name", pa.string()), ("arguments", pa.string())])
_CALL = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", _FUNCTION)])
_MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("reasoning_content", pa.string()),
        ("tool_calls", pa.list_(_CALL)),
        ("tool_call_id", pa.string()),
        ("name", pa.string()),
    ]
)
_TURN = pa.struct([("from", pa.string()), ("value", pa.string())])
_TYPES: dict[Column, pa.DataType] = {
    "text": pa.string(),
    "number": pa.float64(),
    "true or false": pa.bool_(),
    "messages": pa.list_(_MESSAGE),
    "lists of messages": pa.list_(pa.list_(_MESSAGE)),
    "numbers": pa.list_(pa.float64()),
    "turns": pa.list_(_TURN),
    "json": pa.string(),
}


def write(path: Path, columns: Mapping[str, Column], rows: Iterator[dict[str, Any]]) -> None:
    """A column that a row lacks is null in it."""
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
    with staged_file(path) as partial, pq.ParquetWriter(partial, schema) as file:
        while chunk := list(islice(rows, ROWS)):
            flat = [
                {name: _FLATTEN.get(columns[name], lambda same: same)(value) for name, value in row.items()}
                for row in chunk
            ]
            file.write_table(pa.Table.from_pylist(flat, schema=schema))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The arguments of a column have one type, and those of tools have as many as there are tools."""
    return [
        {**message, "tool_calls": list(map(_call, message["tool_calls"]))} if message.get("tool_calls") else message
        for message in messages
    ]


def _call(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call["function"]["arguments"]
    text = arguments if isinstance(arguments, str) else _json(arguments)
    return {**call, "function": {**call["function"], "arguments": text}}


_FLATTEN: dict[Column, Callable[[Any], Any]] = {
    "json": _json,
    "messages": _messages,
    "lists of messages": lambda value: [_messages(messages) for messages in value],
}
