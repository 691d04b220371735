"""Files of every format that are damaged, packed in a way that is none, or larger than they seem: one line each."""

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rl.collect.importers import BY_ITSELF, IMPORTERS
from rl.models import Trace
from tests.refusals import NothingSaid, refusal

pytestmark = pytest.mark.django_db
FORMATS = [name for name in IMPORTERS if name != BY_ITSELF]
LINE = b'{"nothing": "that is known"}\n'


def packed_files() -> Iterator[tuple[str, bytes]]:
    """What a name that ends in .gz may hide."""
    whole = gzip.compress(LINE * 100, mtime=0)
    for at in (0, 1, 2, 3, 9, 10, 11, len(whole) // 2, len(whole) - 9, len(whole) - 8, len(whole) - 4, len(whole) - 1):
        yield f"cut off after {at} bytes", whole[:at]
    yield "a wrong checksum", whole[:-8] + b"\0" * 4 + whole[-4:]
    yield "a wrong size", whole[:-4] + b"\xff" * 4
    yield "a damaged middle", whole[:20] + b"\xff\xff" + whole[22:]
    yield "junk behind it", whole + b"junk"
    yield "another one, cut off, behind it", whole + whole[:12]
    yield "a method that nobody knows", b"\x1f\x8b\x07" + whole[3:]
    for flags in (0x04, 0x08, 0x10, 0x02, 0xFF):
        yield f"flags {flags:#x} without what they say", b"\x1f\x8b\x08" + bytes([flags]) + b"\0" * 6 + b"\xff" * 50
    yield "a name of a million letters", b"\x1f\x8b\x08\x08" + b"\0" * 6 + b"x" * 1_000_000
    yield "packed twice", gzip.compress(whole)
    yield "zlib", zlib.compress(LINE)
    yield "bzip2", bz2.compress(LINE)
    yield "xz", lzma.compress(LINE)
    yield "noise", random.Random(4).randbytes(3000)
    yield "a header and noise", whole[:10] + random.Random(5).randbytes(3000)
    for name, text in {"zeros": b"\0" * 2000, "text": b"hello\n" * 40, "a list of texts": b'["a", "b"]'}.items():
        yield f"{name}, unpacked", text
        yield name, gzip.compress(text)


def plain_files() -> Iterator[tuple[str, bytes]]:
    folder, tar = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(folder, "w") as opened:
        opened.writestr("traces.jsonl", LINE)
    with tarfile.open(fileobj=tar, mode="w") as made:
        made.addfile(tarfile.TarInfo("traces.jsonl"))
    zipped = bytearray(folder.getvalue())
    yield "a zip", bytes(zipped)
    yield "a zip that is encrypted", bytes(zipped[:6] + b"\1" + zipped[7:])
    yield "a zip of a method that nobody knows", bytes(zipped[:8] + b"\x63" + zipped[9:])
    yield "a zip64 that lies", bytes(zipped[:-22]) + b"PK\6\6" + struct.pack("<Q", 2**63) + bytes(zipped[-22:])
    yield "a tar", tar.getvalue()
    yield "a pickle", b"cos\nsystem\n(S'true'\ntR."
    yield "a program", b"\x7fELF" + b"\0" * 400
    yield "noise", random.Random(6).randbytes(3000)
    yield "zeros", b"\0" * 3000
    yield "UTF-16", LINE.decode().encode("utf-16")
    yield "not UTF-8", b'{"a": "\xff"}\n'
    yield "lists within each other", b"[" * 100_000
    yield "objects within each other", b'{"a":' * 100_000
    yield "a number of a million digits", b"[" + b"1" * 1_000_000 + b"]"
    yield "half a pair", b'[{"id": "\\ud800"}]'
    yield "control characters", b'{"\x1b[2J": "\x07"}\n'
    yield "two values", b"{}{}"
    yield "no end", b'{"a": "' + b"x" * 100_000


@pytest.mark.process
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "toolbox_checkpoint" else [])  # a process for each file
        for name in FORMATS
    ],
)
def test_a_file_of_something_else_is_one_line_in_every_format(name: str, tmp_path: Path):
    nothing_comes_of(name, tmp_path / "x.jsonl.gz", packed_files())
    nothing_comes_of(name, tmp_path / "x.jsonl", plain_files())


@pytest.mark.parametrize("ending", [".json", ".csv", ".parquet", ".txt"])
def test_a_file_of_something_else_is_one_line_under_every_name(ending: str, tmp_path: Path):
    nothing_comes_of("trl", tmp_path / f"x{ending}", plain_files())
    nothing_comes_of("trl", tmp_path / f"x{ending}.gz", packed_files())


def nothing_comes_of(name: str, path: Path, files: Iterator[tuple[str, bytes]]) -> None:
    """Each is refused; a table of a head alone, or an empty file, may have nothing in it."""
    failures = []
    for case, data in files:
        path.write_bytes(data)
        try:
            with suppress(NothingSaid):
                refusal("import_traces", path, "--format", name, "--agent", "new")
        except BaseException as error:
            failures.append(f"{path.suffixes} {case}: {type(error).__name__}: {str(error)[:300]}")
    assert not failures, "\n".join(failures)
    assert not Trace.objects.exists()


@pytest.mark.parametrize("data", [b"\0" * 2**27, b"[" + b"[]," * 2**25, LINE * 2**22], ids=["zeros", "lists", "lines"])
def test_a_packed_file_that_unpacks_to_far_more_is_refused(tmp_path: Path, data: bytes):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(data, 9))
    refusal("import_traces", path, "--format", "openai_chat", "--agent", "new")


def test_a_parquet_file_of_little_that_says_much_is_refused(tmp_path: Path):
    pyarrow = pytest.importorskip("pyarrow.parquet") and pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    table = pyarrow.table({"prompt": ["x" * 2**20] * 400})
    pyarrow.parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    assert "times its size" in refusal("import_traces", path, "--format", "trl", "--agent", "new")


def test_a_parquet_file_whose_text_is_none_is_refused(tmp_path: Path):
    pyarrow = pytest.importorskip("pyarrow.parquet") and pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    offsets, letters = pyarrow.py_buffer(struct.pack("<ii", 0, 2)), pyarrow.py_buffer(b"\xff\xfe")
    column = pyarrow.StringArray.from_buffers(1, offsets, letters)
    pyarrow.parquet.write_table(pyarrow.table({"prompt": column}), path)
    assert "not a readable Parquet file" in refusal("import_traces", path, "--format", "trl", "--agent", "new")
