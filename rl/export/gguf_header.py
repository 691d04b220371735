"""Opens GGUF files that others made. The package's reader believes whatever a header says; here the header is walked through
first, and refused where it says more than the file can hold.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""

import math
import mmap
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, GGUFValueType

from rl.base.errors import BadFile
from rl.base.outside_files import open_outside

_MOST_VALUES: Final = 4_000_000
"""In all lists together: the reader makes an object of each. Vocabularies of 260,000 tokens come to a quarter of it."""
_MOST_DIMENSIONS, _MOST_WEIGHTS = 4, 2**48
_LONGEST_NAME = 65_535
_NUMBERS: Final = (
    *("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32"),
    *("FLOAT32", "BOOL", "UINT64", "INT64", "FLOAT64"),
)
_FORMATS: Final = {GGUFValueType[name]: form for name, form in zip(_NUMBERS, "BbHhIifBQqd", strict=True)}


def open_gguf(path: Path) -> GGUFReader:
    """Raises BadFile for a file that is not whole, or whose parts do not fit together."""
    with open_outside(path) as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                _Header(content).check()
            return _Reader(path)
        except (ValueError, LookupError, OverflowError) as error:
            raise BadFile(path, f"is not a whole GGUF file: {error}") from error


class _Reader(GGUFReader):
    """Reads plain arrays: what numpy does for each slice of a mapped one is most of a large vocabulary's time."""

    @property
    def data(self) -> np.ndarray:
        return self._plain

    @data.setter
    def data(self, mapped: np.memmap) -> None:
        self._plain = mapped.view(np.ndarray)


class _Header:
    """A cursor over the header. Its methods raise ValueError, and LookupError for types that there are not."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content, self._at, self._values, self._alignment = content, 0, 0, gguf.GGUF_DEFAULT_ALIGNMENT

    def check(self) -> None:
        if self._content[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        self._at = 4
        (version,) = self._take("I")
        if version not in gguf.gguf_reader.READER_SUPPORTED_VERSIONS:
            raise ValueError(f"it has version {version}, or its bytes in the other order")
        tensors, fields = self._take("QQ")
        for name in self._names("field", fields):
            self._pass_value(name, GGUFValueType(self._take("I")[0]))
        ordered = sorted(self._pass_tensor(name) for name in self._names("tensor", tensors))
        data = -(-self._at // self._alignment) * self._alignment  # behind the header
        if any(end > start for (_, end), (start, _) in pairwise(ordered)):
            raise ValueError("two tensors lie in the same place")
        if ordered and data + ordered[-1][1] > len(self._content):
            raise ValueError("it ends before its last tensor does")

    def _names(self, what: str, count: int) -> Iterator[str]:
        """What belongs to a name is read before the next one is asked for."""
        seen: set[str] = set()
        for _ in range(count):
            name = self._text()
            if name in seen or len(name) > _LONGEST_NAME:
                raise ValueError(f"the {what} {name:.80} is there twice, or its name is too long")
            seen.add(name)
            yield name

    def _pass_value(self, name: str, kind: GGUFValueType) -> None:
        if name == "general.alignment":
            (self._alignment,) = self._take("I") if kind is GGUFValueType.UINT32 else (0,)
            if not 0 < self._alignment <= mmap.PAGESIZE or self._alignment & (self._alignment - 1):
                raise ValueError("general.alignment must be a power of two")
        elif kind is GGUFValueType.ARRAY:
            self._pass_list(name)
        elif kind is GGUFValueType.STRING:
            self._text()
        else:
            self._take(_FORMATS[kind])

    def _pass_list(self, name: str) -> None:
        number, count = self._take("IQ")
        kind = GGUFValueType(number)
        self._values += count
        if self._values > _MOST_VALUES or kind is GGUFValueType.ARRAY:
            raise ValueError(f"{name:.80} has lists in a list, or the file more than {_MOST_VALUES:,} values")
        if kind is GGUFValueType.STRING:
            for _ in range(count):
                self._skip(self._take("Q")[0])
        else:
            self._skip(count * struct.calcsize(f"<{_FORMATS[kind]}"))

    def _pass_tensor(self, name: str) -> tuple[int, int]:
        """Where its weights begin, behind the header, and where they end."""
        (dimensions,) = self._take("I")
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise ValueError(f"the tensor {name:.80} has {dimensions} dimensions")
        shape = self._take("Q" * dimensions)
        number, start = self._take("IQ")
        width, size = GGML_QUANT_SIZES[GGMLQuantizationType(number)]
        weights = math.prod(shape)
        if not 0 < weights <= _MOST_WEIGHTS or shape[0] % width or start % self._alignment:
            raise ValueError(f"the tensor {name:.80} has a shape or a place that no tensor of its type has")
        return start, start + weights // width * size

    def _text(self) -> str:
        (length,) = self._take("Q")
        start = self._at
        self._skip(length)
        return self._content[start : self._at].decode()

    def _take(self, form: str) -> tuple[Any, ...]:
        start = self._at
        self._skip(struct.calcsize(f"<{form}"))
        return struct.unpack_from(f"<{form}", self._content, start)

    def _skip(self, count: int) -> None:
        if count > len(self._content) - self._at:
            raise ValueError("it ends too early")
        self._at += count
