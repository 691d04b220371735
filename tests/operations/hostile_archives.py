"""Archives that somebody who means harm, or a broken disk, hands to ``restore``: each is made from one sound backup."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import random
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

BLOCK = 512
FIELDS = {
    "name": (0, 100),
    "mode": (100, 8),
    "uid": (108, 8),
    "size": (124, 12),
    "mtime": (136, 12),
    "checksum": (148, 8),
    "type": (156, 1),
    "linkname": (157, 100),
    "magic": (257, 8),
    "devmajor": (329, 8),
    "prefix": (345, 155),
}
"""Where the fields of a header stand, and how long they are."""
WEIGHTS = "data/models/weights"
NAMES = (
    "data/../../outside",
    "/etc/cron.d/x",
    "data/a/../../../x",
    "elsewhere/x",
    "data",
    "data/",
    "data//x",
    "data/./x",
    "data/..",
    "data/x/",
    "../data/x",
    "./data/x",
    "DATA/x",
    "database",
    "database/../data/x",
    "C:/data/x",
    "data\\x",
    "data/..\\..\\x",
    "data/x\0y",
    "data/\0",
    "data/two\nlines",
    "data/bell\a\x1b[2J",
    "data/" + "x" * 300,
    "data/" + "x/" * 3000 + "x",
    "data/half a pair \udcff",
    "~/data/x",
    "data/models",
    "data/models/weights/x",
    "manifest.json/x",
    "",
)
"""That the one file of DATA_DIR is given, in the manifest too."""
WRONG: tuple[Any, ...] = (None, False, 7, -1, 1.5, "two\nlines", [], [1], [None], {}, {"a": 1}, [["x"]])

Made = tuple[str, bytes]


def archive(
    files: dict[str, bytes], manifest: Any, *, edit: Callable[[tarfile.TarInfo], None] = lambda member: None
) -> bytes:
    """``manifest``: a document, or its bytes."""
    made = io.BytesIO()
    with tarfile.TarFile(fileobj=made, mode="w", errors="surrogateescape") as tar:
        content = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
        for name, data in {**files, "manifest.json": content}.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o600
            edit(member)
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def listed(files: dict[str, bytes]) -> dict[str, Any]:
    return {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}


def header(**fields: Any) -> bytes:
    """512 bytes; numbers are written in octal, and the checksum is right unless it is given."""
    block = bytearray(tarfile.TarInfo("data/x").tobuf(tarfile.USTAR_FORMAT))
    for name, value in fields.items():
        at, length = FIELDS[name]
        raw = f"{value:0{length - 1}o}\0".encode() if isinstance(value, int) else value
        block[at : at + length] = raw[:length].ljust(length, b"\0")
    if "checksum" not in fields:
        block[148:156] = b" " * 8
        block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


def padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % BLOCK)


def extended(records: bytes, kind: bytes = b"x", size: int | None = None) -> bytes:
    """A header of the pax kind, with the member that it is about left to the caller."""
    return header(name=b"pax", type=kind, size=len(records) if size is None else size) + padded(records)


def record(keyword: str, value: str) -> bytes:
    body = f" {keyword}={value}\n".encode()
    length = len(body) + 1
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


class Corpus:
    """``files`` and ``manifest``: of a sound backup."""

    def __init__(self, files: dict[str, bytes], manifest: dict[str, Any]) -> None:
        self.files, self.manifest = files, {**manifest, "files": listed(files)}
        self.sound = archive(files, self.manifest)

    def __iter__(self) -> Iterator[Made]:
        for group in (
            self.cut,
            self.no_tar,
            self.headers,
            self.kinds,
            self.names,
            self.twice,
            self.extended,
            self.manifests,
            self.fields,
            self.contents,
            self.many,
        ):
            yield from ((f"{group.__name__}: {name}", data) for name, data in group())

    def cut(self) -> Iterator[Made]:
        end = len(self.sound.rstrip(b"\0"))
        for at in sorted({0, 1, 100, 511, 512, 513, 1000, end - 1, end // 2, end // 3 * 2, *range(1024, end, 4096)}):
            yield f"after {at} bytes", self.sound[:at]
        yield "zeros in the middle", self.sound[: end // 2 // 512 * 512] + b"\0" * 1024 + self.sound[end // 2 :]

    def no_tar(self) -> Iterator[Made]:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as folder:
            folder.writestr("manifest.json", json.dumps(self.manifest))
        yield from {
            "gzip": gzip.compress(self.sound, 1),
            "bzip2": bz2.compress(self.sound, 1),
            "xz": lzma.compress(self.sound, preset=0),
            "zip": packed.getvalue(),
            "zeros": b"\0" * 10240,
            "ones": b"\xff" * 10240,
            "text": b"hello\n" * 1000,
            "noise": random.Random(1).randbytes(10240),
            "a database": b"SQLite format 3\0" + b"\0" * 4080,
            "a bomb in gzip": gzip.compress(b"\0" * 2**26, 1),
            "a tar in a tar": archive({"data/inner.tar": self.sound}, b"{}"),
        }.items()

    def headers(self) -> Iterator[Made]:
        """The first header, with one field changed; what follows is as it was."""
        rest = self.sound[BLOCK:]
        sizes = [b"\x80" + b"\xff" * 11, b"\xff" * 12, b"\x80" + b"\0" * 3 + b"\x7f" + b"\xff" * 7, b"99999999999\0"]
        sizes += [
            b"-0000000001\0",
            b"77777777777\0",
            b"   1 2 3   \0",
            b"\0" * 12,
            b"0x10\0",
            b"\xc2\xb2" * 6,
            b"1_0\0",
        ]
        for size in sizes:
            yield f"size {size!r}", header(name=b"database/db.sqlite3", size=size) + rest
        for field in ("mode", "uid", "mtime"):
            for raw in (
                b"\xff" * 12,
                b"zzzzzzz\0",
                b"\x80" + b"\xff" * 11,
                b"\x80" + b"\0" * 3 + b"\x7f" + b"\xff" * 7,
            ):
                yield f"{field} {raw!r}", header(name=b"database/db.sqlite3", size=10, **{field: raw}) + rest
        for field, raw in (("magic", b"nonsense"), ("prefix", b"../../.."), ("checksum", b"000001\0 ")):
            yield f"{field} {raw!r}", header(name=b"database/db.sqlite3", size=10, **{field: raw}) + rest
        yield "a name without an end", header(name=b"\xff" * 100, size=0) + rest

    def kinds(self) -> Iterator[Made]:
        """Of a member that is none: links, devices, folders, what nobody knows."""
        for kind in b"1234567ADEKLMNSVXZg\x01\x7f\xff ":
            for link in (b"/etc/passwd", b""):
                block = header(name=WEIGHTS.encode(), type=bytes([kind]), linkname=link, size=0, devmajor=b"1\0")
                yield f"{bytes([kind])!r} to {link!r}", block + self.sound

    def names(self) -> Iterator[Made]:
        others = {name: data for name, data in self.files.items() if name != WEIGHTS}
        for name in NAMES:
            files = {**others, name: b"w" * 10}
            yield repr(name)[:60], archive(files, {**self.manifest, "files": listed(files)})
        files = {**self.files, "data/a": b"a", "data/a/b": b"b"}
        yield "a file that is a folder too", archive(files, {**self.manifest, "files": listed(files)})

    def twice(self) -> Iterator[Made]:
        end = self.sound.rstrip(b"\0")
        body = self.sound[: -(-len(end) // BLOCK) * BLOCK]
        yield "the archive twice", body + self.sound
        yield "a member twice", header(name=WEIGHTS.encode(), size=0) + self.sound
        yield "a second manifest", header(name=b"manifest.json", size=2) + padded(b"{}") + self.sound
        yield "no manifest", archive(self.files, b"")[: -BLOCK * 4]

    def extended(self) -> Iterator[Made]:
        """What comes before a member to say more of it."""
        member = header(name=WEIGHTS.encode(), size=0)
        records = {
            "a path outside": record("path", "/etc/cron.d/x"),
            "a path with zeros": record("path", "data/x\0y"),
            "a path of two lines": record("path", "data/x\ny"),
            "a size that is none": record("size", "ten"),
            "a size below zero": record("size", "-1"),
            "a size beyond all": record("size", str(2**80)),
            "a size of thousands of digits": record("size", "9" * 6000),
            "a time that is none": record("mtime", "nan"),
            "a time without end": record("mtime", "inf"),
            "a time beyond all": record("mtime", "1e308"),
            "a link": record("linkpath", "/etc/passwd"),
            "a length that is none": b"xx path=y\n",
            "a length of nothing": b"0 path=y\n",
            "a length below zero": b"-5 path=y\n",
            "a length beyond the end": b"99999999 path=y\n",
            "a length of thousands of digits": b"9" * 6000 + b" path=y\n",
            "no equals sign": b"9 pathxx\n",
            "no end": b"12 path=data",
            "noise": random.Random(2).randbytes(700),
            "bytes that are no text": b"13 path=d/\xff\xfe\n",
            "another character set": record("hdrcharset", "BINARY") + b"13 path=d/\xff\xfe\n",
            "holes, first form": record("GNU.sparse.size", "9" * 30) + record("GNU.sparse.numblocks", "7"),
            "holes, second form": record("GNU.sparse.map", "1,-2,x"),
            "holes, third form": record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0"),
            "holes and no numbers": record("GNU.sparse.major", "1") + record("GNU.sparse.realsize", "x"),
            "many records": record("comment", "x") * 20_000,
        }
        for name, text in records.items():
            for kind in (b"x", b"g", b"X"):
                yield f"{name}, {kind!r}", extended(text, kind) + member + self.sound
        for size in (2**31, 2**40, 0o77777777777):
            for kind in (b"x", b"g", b"L", b"K"):
                yield f"{kind!r} of {size} bytes", extended(b"data", kind, size) + member + self.sound
        for kind in (b"x", b"L", b"K", b"g"):
            yield f"{kind!r} before {kind!r}, 5,000 times", extended(b"data/x\0", kind) * 5000 + member + self.sound
        yield "L at the end", extended(b"data/x\0", b"L")
        holes = bytearray(header(name=WEIGHTS.encode(), type=b"S", size=0))
        holes[386:483] = b"7" * 96 + b"\1"
        yield "holes of the old kind", header(type=b"S")[:0] + bytes(holes) + (b"7" * 504 + b"\1" + b"\0" * 7) * 50

    def manifests(self) -> Iterator[Made]:
        """Bytes in the place of the list."""
        good = json.dumps(self.manifest)
        yield from {
            name: archive(self.files, content)
            for name, content in {
                "empty": b"",
                "null": b"null",
                "a list": b"[]",
                "a text": b'"x"',
                "deep": b"[" * 200_000,
                "deep objects": b'{"a":' * 200_000,
                "not UTF-8": b'{"format": "\xff"}',
                "a number of a million digits": b'{"format": ' + b"1" * 1_000_000 + b"}",
                "not a number": b'{"format": NaN}',
                "cut off": good[: len(good) // 2].encode(),
                "two": (good * 2).encode(),
                "zeros": b"\0" * 4096,
                "format 1.5": good.replace('"format": 1', '"format": 1.5').encode(),
            }.items()
        }.items()

    def fields(self) -> Iterator[Made]:
        for name in self.manifest:
            for value in WRONG:
                if type(value) is not type(self.manifest[name]) or value:
                    yield f"{name} is {value!r}", archive(self.files, {**self.manifest, name: value})
            yield f"no {name}", archive(self.files, {k: v for k, v in self.manifest.items() if k != name})
        for entry in (*WRONG, {"size": True, "sha256": "x"}, {"size": -1, "sha256": ""}, {"size": 10}, {"sha256": "x"}):
            files = {**self.manifest["files"], WEIGHTS: entry}
            yield f"an entry is {entry!r}", archive(self.files, {**self.manifest, "files": files})

    def contents(self) -> Iterator[Made]:
        yield "other weights", archive({**self.files, WEIGHTS: b"x" * 10}, self.manifest)
        for name, data in {
            "empty": b"",
            "text": b"hello",
            "no pages": b"SQLite format 3\0" + b"\0" * 84,
            "noise": b"SQLite format 3\0" + random.Random(3).randbytes(8176),
        }.items():
            files = {**self.files, "database/db.sqlite3": data}
            yield f"a database: {name}", archive(files, {**self.manifest, "files": listed(files)})
        files = {name: data for name, data in self.files.items() if not name.startswith("database/")}
        yield "no database", archive(files, {**self.manifest, "files": listed(files)})
        for time in (-(2**40), 2**62, 2**33 * 1.5):
            made = archive(self.files, self.manifest, edit=lambda member, time=time: setattr(member, "mtime", time))
            yield f"files of the time {time}", made

    def many(self) -> Iterator[Made]:
        empty = b"".join(header(name=f"data/{number}".encode(), size=0) for number in range(20_000))
        yield "20,000 members that nobody lists", empty + self.sound
        files = {name: {"size": 2**50, "sha256": "0" * 64} for name in self.manifest["files"]}
        yield "sizes that no disk has", archive(self.files, {**self.manifest, "files": files})
