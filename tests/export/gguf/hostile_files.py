"""GGUF files that lie: each is the file of a sound tiny model with one thing in it that is not so."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np

STRING, ARRAY, UINT32 = 8, 9, 4
HUGE = (0, 2**31 - 1, 2**31, 2**32 - 1)
COUNTS = (
    "block_count",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "embedding_length",
    "feed_forward_length",
    "context_length",
)
NO_NUMBERS: tuple[tuple[int, bytes], ...] = (
    (STRING, struct.pack("<Q", 3) + b"ten"),
    (6, struct.pack("<f", float("nan"))),
    (6, struct.pack("<f", float("inf"))),
    (12, struct.pack("<d", 1e308)),
    (5, struct.pack("<i", -1)),
    (7, b"\0"),
    (10, struct.pack("<Q", 2**64 - 1)),
    (ARRAY, struct.pack("<IQ", UINT32, 0)),
    (ARRAY, struct.pack("<IQII", UINT32, 2, 4, 4)),
)


@dataclass(frozen=True, slots=True)
class Parts:
    """Of a file. ``fields``: key to the number of its type and its bytes; ``tensors``: name to dimensions, type, offset."""

    fields: tuple[tuple[bytes, int, bytes], ...]
    tensors: tuple[tuple[bytes, tuple[int, ...], int, int], ...]
    weights: bytes
    magic: bytes = b"GGUF"
    version: int = 3
    counts: tuple[int, int] | None = None

    def written(self) -> bytes:
        tensors, fields = self.counts or (len(self.tensors), len(self.fields))
        head = self.magic + struct.pack("<IQQ", self.version, tensors, fields)
        head += b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in self.fields)
        for name, shape, kind, offset in self.tensors:
            head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        return head + b"\0" * (-len(head) % 32) + self.weights

    def with_field(self, key: str, kind: int, value: bytes) -> Parts:
        others = tuple(field for field in self.fields if field[0] != key.encode())
        return replace(self, fields=(*others, (key.encode(), kind, value)))

    def without(self, key: str) -> Parts:
        return replace(self, fields=tuple(field for field in self.fields if field[0] != key.encode()))

    def with_tensor(self, **changed: Any) -> Parts:
        """The first one, with another name, shape, kind or offset."""
        name, shape, kind, offset = self.tensors[0]
        first = {"name": name, "shape": shape, "kind": kind, "offset": offset} | changed
        return replace(self, tensors=((*first.values(),), *self.tensors[1:]))  # type: ignore[arg-type]


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def parts_of(file: Path) -> Parts:
    reader = gguf.GGUFReader(file)
    fields = []
    for name, field in reader.fields.items():
        if not name.startswith("GGUF."):
            raw = b"".join(np.asarray(part).tobytes() for part in field.parts[3:])
            fields.append((name.encode(), int(field.types[0]), raw))
    tensors = [
        (each.name.encode(), tuple(map(int, each.shape)), int(each.tensor_type), each.data_offset - reader.data_offset)
        for each in reader.tensors
    ]
    return Parts(tuple(fields), tuple(tensors), file.read_bytes()[reader.data_offset :])


def hostile_files(sound: Parts, architecture: str) -> Iterator[tuple[str, bytes]]:
    whole = sound.written()
    for at in (0, 3, 4, 7, 8, 16, 23, 24, 25, 31, 40, 100, 1000, len(whole) // 2, len(whole) - 1):
        yield f"cut off after {at} bytes", whole[:at]
    yield "noise", b"GGUF" + struct.pack("<I", 3) + random.Random(7).randbytes(4000)
    yield "zeros", b"\0" * 4000
    yield "zeros behind its beginning", whole[:8] + b"\0" * 4000
    yield "another beginning", replace(sound, magic=b"GGML").written()
    for version in (0, 1, 4, 3 << 24, 2**32 - 1):
        yield f"version {version}", replace(sound, version=version).written()
    for count in (2**31, 2**40, 2**63, 2**64 - 1):
        yield f"{count} tensors", replace(sound, counts=(count, len(sound.fields))).written()
        yield f"{count} fields", replace(sound, counts=(len(sound.tensors), count)).written()
        yield f"a text of {count} bytes", sound.with_field("x", STRING, struct.pack("<Q", count)).written()
        yield f"a key of {count} bytes", whole[:24] + struct.pack("<Q", count) + whole[32:]
        for kind in (0, UINT32, 7, STRING, ARRAY):
            lists = sound.with_field("x", ARRAY, struct.pack("<IQ", kind, count))
            yield f"a list of {count} of type {kind}", lists.written()
            inner = replace(lists, tensors=(), weights=b"").written()
            yield f"a list of {count} of type {kind} at the end", inner.rstrip(b"\0")
    yield from lists_and_fields(sound)
    yield from tensors(sound)
    yield from counts(sound, architecture)
    yield from tokenizers(sound)


def lists_and_fields(sound: Parts) -> Iterator[tuple[str, bytes]]:
    for kind in (13, 99, 2**32 - 1):
        yield f"a field of type {kind}", sound.with_field("x", kind, b"\0" * 8).written()
        yield f"a list of type {kind}", sound.with_field("x", ARRAY, struct.pack("<IQQ", kind, 1, 0)).written()
    yield "lists within each other", sound.with_field("x", ARRAY, struct.pack("<IQ", ARRAY, 1) * 20_000).written()
    bytes_each = struct.pack("<IQ", 0, 2**25) + b"\0" * 2**25
    yield "a list of 33 million numbers", sound.with_field("x", ARRAY, bytes_each).written()
    yield (
        "a list of five million empty texts",
        sound.with_field("x", ARRAY, struct.pack("<IQ", STRING, 5_000_000) + b"\0" * 40_000_000).written(),
    )
    yield "a field twice", replace(sound, fields=(*sound.fields, sound.fields[0])).written()
    yield "a key that is no text", replace(sound, fields=((b"\xff\xfe", 7, b"\1"), *sound.fields)).written()
    yield "a text that is none", sound.with_field("general.architecture", STRING, text(b"\xff\xfe")).written()
    for name in (b"nobody knows it", b"two\nlines", b"\x1b[2J", b"../../etc", b"x" * 100_000, b""):
        yield f"architecture {name[:20]!r}", sound.with_field("general.architecture", STRING, text(name)).written()
    for kind, raw in NO_NUMBERS:
        yield f"architecture of type {kind} {raw!r}", sound.with_field("general.architecture", kind, raw).written()
    for alignment in (0, 3, 2**31, 2**32 - 1):
        raw = struct.pack("<I", alignment)
        yield f"alignment {alignment}", sound.with_field("general.alignment", UINT32, raw).written()
    yield "alignment in words", sound.with_field("general.alignment", STRING, text(b"32")).written()


def tensors(sound: Parts) -> Iterator[tuple[str, bytes]]:
    for shape in (
        (),
        (0,),
        (2**63,),
        (2**32, 2**32),
        (2**31, 2**31),
        (1,) * 5,
        (1,) * 1000,
        (2**64 - 1, 2),
        (1, 2**40),
    ):
        yield f"the shape {shape[:6]}", sound.with_tensor(shape=shape).written()
    for kind in (4, 5, 31, 99, 2**32 - 1):
        yield f"a tensor of type {kind}", sound.with_tensor(kind=kind).written()
    for kind in (12, 14, 2):
        yield f"a tensor of blocks, type {kind}, in a row of 3", sound.with_tensor(kind=kind, shape=(3, 3)).written()
    for offset in (1, 31, len(sound.weights), 2**40, 2**63, 2**64 - 32):
        yield f"a tensor at {offset}", sound.with_tensor(offset=offset).written()
    yield "a tensor twice", replace(sound, tensors=(sound.tensors[0], *sound.tensors)).written()
    yield (
        "all tensors in one place",
        replace(sound, tensors=tuple((name, shape, kind, 0) for name, shape, kind, _ in sound.tensors)).written(),
    )
    for name in (b"\xff", b"", b"x" * 100_000, b"blk.9.attn_q.weight", b"two\nlines"):
        yield f"a tensor called {name[:20]!r}", sound.with_tensor(name=name).written()
    yield "no tensors", replace(sound, tensors=(), weights=b"").written()
    yield "one tensor", replace(sound, tensors=sound.tensors[:1]).written()


def counts(sound: Parts, architecture: str) -> Iterator[tuple[str, bytes]]:
    for key in COUNTS:
        name = f"{architecture}.{key}"
        for number in HUGE:
            yield f"{key} {number}", sound.with_field(name, UINT32, struct.pack("<I", number)).written()
        for kind, raw in NO_NUMBERS:
            yield f"{key} of type {kind} {raw!r}", sound.with_field(name, kind, raw).written()
        if key in COUNTS[:2] + COUNTS[4:]:
            yield f"no {key}", sound.without(name).written()


def tokenizers(sound: Parts) -> Iterator[tuple[str, bytes]]:
    prefix = "tokenizer.ggml."
    for key in ("tokens", "token_type", "merges", "model", "pre", "bos_token_id", "eos_token_id"):
        for kind, raw in NO_NUMBERS:
            yield f"{key} of type {kind} {raw!r}", sound.with_field(prefix + key, kind, raw).written()
    for key in ("tokens", "merges"):
        yield f"no {key}", sound.without(prefix + key).written()
    for number in HUGE[1:]:
        yield f"token {number}", sound.with_field(f"{prefix}eos_token_id", UINT32, struct.pack("<I", number)).written()
