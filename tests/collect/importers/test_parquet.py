from datetime import datetime
from pathlib import Path

import pytest

from rl.base.errors import BadFile
from rl.collect.importers import openai_chat, trl
from tests.collect.importers.reading import said, taken

pyarrow = pytest.importorskip("pyarrow")


def table(path: Path, *rows: dict[str, object]) -> Path:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


def test_rows_are_read_as_their_json_would_be(tmp_path):
    rows = [{"prompt": f"{n}?", "completion": "Yes.", "label": n % 2 == 0} for n in range(300)]
    found = taken(trl, table(tmp_path / "x.parquet", *rows))
    assert len(found) == 300
    assert (found[1].where, found[1].feedback[0].value) == ("row 2", 0.0)


def test_what_a_column_adds_to_a_message_without_it_is_nothing(tmp_path):
    calls = [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]
    chat = [
        said("user", "?"),
        said("assistant", None, tool_calls=calls),
        said("tool", "4", tool_call_id="a"),
        said("assistant", "4."),
    ]
    (trace,) = taken(openai_chat, table(tmp_path / "x.parquet", {"messages": chat, "at": datetime(2026, 2, 1)}))  # noqa: DTZ001
    assert trace.tool_calls[0].result == "4"
    assert trace.details == {"at": "2026-02-01 00:00:00"}


def test_what_is_no_parquet_is_a_bad_file(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(BadFile, match="not a readable Parquet file"):
        list(trl.read(tmp_path / "x.parquet"))
