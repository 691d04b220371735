import gzip
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import BadFile
from rl.collect.importers.rows import FIRST, rows
from rl.collect.traces.imported import Rejected
from rl.from_systems.n3 import feedback_file as n3
from tests.collect.importers.reading import document, lines

GOOD = {"prompt": "Where?", "response": "Here.", "score": 1}


def values(path: Path, *lists: str) -> list[Any]:
    return [value for _, value in rows(path, lists)]


def test_a_json_list_is_read_record_by_record(tmp_path):
    assert list(rows(document(tmp_path, [{"a": 1}, {"a": 2}]))) == [("record 1", {"a": 1}), ("record 2", {"a": 2})]


def test_lines_are_counted_as_an_editor_counts_them(tmp_path):
    assert list(rows(lines(tmp_path, {"a": 1}, "", {"a": 2}))) == [("line 1", {"a": 1}), ("line 3", {"a": 2})]


def test_json_lines_may_be_called_json(tmp_path):
    assert values(lines(tmp_path, {"a": 1}, {"a": 2}, name="x.json")) == [{"a": 1}, {"a": 2}]


def test_an_object_is_one_record_or_the_list_in_it(tmp_path):
    path = document(tmp_path, {"meta": 1, "data": [{"a": 1}, {"a": 2}]})
    assert values(path) == [{"meta": 1, "data": [{"a": 1}, {"a": 2}]}]
    assert values(path, "data") == [{"a": 1}, {"a": 2}]


def test_a_byte_order_mark_is_no_content(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n{"a": 2}')
    assert values(path) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.csv"])
def test_an_empty_file_holds_nothing(tmp_path, name):
    (tmp_path / name).touch()
    assert values(tmp_path / name) == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "is not JSON: expecting property name"),
        (b'"\xff"', "is not UTF-8"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"1" * 5000, "contains a number of thousands of digits"),
    ],
)
def test_a_damaged_line_is_rejected_and_reading_goes_on(tmp_path, line, reason):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n' + line + b'\n{"a": 2}\n')
    first, wrong, last = rows(path)
    assert (first[1], last[1]) == ({"a": 1}, {"a": 2})
    assert isinstance(wrong[1], Rejected)
    assert wrong[1].where == "line 2"
    assert wrong[1].reason.startswith(reason)


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("rl.collect.importers.rows.LONGEST", 2**20)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n"' + b"x" * (20 * 2**20) + b'"\n{"a": 2}\n')
    tracemalloc.start()
    found = values(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(found[1], Rejected)
    assert found[2] == {"a": 2}
    assert peak < 8 * 2**20


def test_a_table_has_a_head_and_json_in_its_cells(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('id,tags,note,empty\n1,"[""a"", ""b""]","{no json,\nreally}",\n')
    assert values(path) == [{"id": "1", "tags": ["a", "b"], "note": "{no json,\nreally}"}]


def test_a_damaged_table_is_a_bad_file(tmp_path):
    (tmp_path / "x.csv").write_text('id\n"open')
    with pytest.raises(BadFile, match="not valid CSV"):
        values(tmp_path / "x.csv")
    (tmp_path / "y.csv").write_text("id\n1,2\n")
    assert isinstance(values(tmp_path / "y.csv")[0], Rejected)


def test_a_packed_file_is_unpacked(tmp_path):
    for name, text in (
        ("x.jsonl.gz", b'{"a": 1}\n{"a": 2}'),
        ("x.json.gz", b'[{"a": 1}, {"a": 2}]'),
        ("x.csv.gz", b"a\n1"),
    ):
        (tmp_path / name).write_bytes(gzip.compress(text))
    assert values(tmp_path / "x.jsonl.gz") == values(tmp_path / "x.json.gz") == [{"a": 1}, {"a": 2}]
    assert values(tmp_path / "x.csv.gz") == [{"a": "1"}]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-20], lambda data: b"no gzip", lambda data: data[:40] + b"x" * 20]
)
def test_a_damaged_packed_file_is_a_bad_file(tmp_path, damage):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(damage(gzip.compress(bytes(f'{{"a": "{zlib.crc32(b"a")}"}}\n' * 50, "ascii"))))
    with pytest.raises(BadFile, match="damaged gzip"):
        values(path)


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("rl.collect.importers.rows.ALWAYS_FINE", 2**20)
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * (20 * 2**20)))
    with pytest.raises(BadFile, match="250 times its size"):
        values(path)


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04\x00", b"\xff\xfe[\x00]\x00", b"[1, 2", b'{"a": ', b"[1] 2", b"<html>"]
)
def test_what_is_no_such_file_is_a_bad_file(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(BadFile, match=r"x\.json"):
        list(n3.read(path))


def test_a_file_that_cannot_be_opened_is_a_bad_file(tmp_path):
    with pytest.raises(BadFile, match="cannot be read"):
        list(n3.read(tmp_path / "missing.jsonl"))
    with pytest.raises(BadFile, match="cannot be read"):
        list(n3.read(tmp_path))


def test_a_file_in_which_nothing_is_right_is_a_bad_file(tmp_path):
    with pytest.raises(BadFile, match=r"\(line 1\): nothing in it could be read: prompt is missing"):
        list(n3.read(lines(tmp_path, *[{"a": 1}] * FIRST, GOOD)))


def test_some_wrong_lines_before_the_first_good_one_are_rejected_in_their_order(tmp_path):
    found = list(n3.read(lines(tmp_path, {"a": 1}, "7", GOOD, "{")))
    assert [one.where for one in found] == ["line 1", "line 2", "line 3", "line 4"]
    assert [isinstance(one, Rejected) for one in found] == [True, True, False, True]


def test_what_no_database_holds_is_rejected_with_its_place(tmp_path):
    bad = {**GOOD, "notes": ["x", {"y": "\x00"}]}
    rejected = list(n3.read(lines(tmp_path, GOOD, bad)))[1]
    assert rejected == Rejected("line 2", "/notes/1/y contains a NUL character")
