"""Looks for words in every byte below a folder, however a file writes them."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

DEEPEST = 4
"""Archives within archives."""


def spellings(word: str) -> set[bytes]:
    """As text of several encodings, and as JSON, once and twice, writes it."""
    plain = {word, word.lower(), word.upper(), word.casefold()}
    escaped = {json.dumps(each)[1:-1] for each in plain}
    texts = plain | escaped | {json.dumps(each)[1:-1] for each in escaped} | {word.encode("unicode_escape").decode()}
    codes = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le")
    return {each.encode(code) for each in texts for code in codes} | _base64(word.encode())


def _base64(data: bytes) -> set[bytes]:
    """What of the text stays the same whatever stands around it, at each of the three places it may have in a group."""
    middles = set()
    for shift in range(3):
        middles.add(base64.b64encode(b"\0" * shift + data)[4 if shift else 0 : -4])
    return {middle for middle in middles if len(middle) >= 8}


def find(words: Iterable[str], folder: Path) -> dict[str, set[str]]:
    """File, or member of a file, to the words in it; the paths are relative."""
    looked_for = {word: spellings(word) for word in words}
    seen: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            for name, content in _layers(path.relative_to(folder).as_posix(), path.read_bytes(), DEEPEST):
                hits = {word for word, forms in looked_for.items() if any(form in content for form in forms)}
                if hits or any(word in name for word in looked_for):
                    seen.setdefault(name, set()).update(hits)
    return seen


def _layers(name: str, content: bytes, left: int) -> Iterator[tuple[str, bytes]]:
    """The bytes as they are, and what is packed in them."""
    yield name, content
    for member, inner in _unpacked(content) if left else ():
        yield from _layers(f"{name}!{member}", inner, left - 1)


def _unpacked(content: bytes) -> Iterator[tuple[str, bytes]]:
    kinds = ((b"\x1f\x8b", gzip.decompress), (b"BZh", bz2.decompress), (b"\xfd7zXZ", lzma.decompress))
    for magic, unpack in kinds:
        if content.startswith(magic):
            yield "", unpack(content)
    if content[:1] == b"\x78" and content[1:2] in b"\x01\x5e\x9c\xda":
        yield "", zlib.decompressobj().decompress(content)
    if content.startswith(b"PK\x03\x04"):  # .npz, and what torch saves
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield from ((member, archive.read(member)) for member in archive.namelist())
    if content[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for entry in archive.getmembers():
                if entry.isfile() and (file := archive.extractfile(entry)) is not None:
                    yield entry.name, file.read()
