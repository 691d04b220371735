"""The opcodes of pickle protocols 0 to 5, and how the argument of each is read.

After PEP 307, 3154 and 574, and the descriptions in the standard library's ``pickletools``.
"""

from __future__ import annotations

import codecs
import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rl.from_systems.toolbox.checkpoints.limits import LONGEST_INTEGER, LONGEST_NAME, Refused
from rl.from_systems.toolbox.checkpoints.values import Global

Reader = Callable[[bytes, int], tuple[Any, int]]
"""From the file and a position to the argument and the position behind it. Raises Refused."""
_LONGEST_NUMBER = 700
"""Characters of a number in text; 255 bytes have 614 digits."""
_NUMBER = re.compile(rb"[+-]?[0-9]+")
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|[0-7]{1,3}|\n|.)", re.DOTALL)
_ESCAPES = {
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
    b"\n": b"",
    b"\\": b"\\",
    b"'": b"'",
    b'"': b'"',
}


class Operations:
    """Iterates over (opcode's name, argument). ``offset`` and ``name`` say where it is, for whoever reports an error."""

    def __init__(self, data: bytes) -> None:
        self.data, self.offset, self.name = data, 0, "the beginning"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        data, at, size = self.data, 0, len(self.data)
        while True:
            self.offset = at
            if at >= size:
                raise Refused("the file ends without STOP")
            self.name, read = OPCODES.get(data[at], _UNKNOWN)
            at += 1
            argument = None
            if read is not None:
                argument, at = read(data, at)
            yield self.name, argument
            if self.name == "STOP":
                break
        if at != size:
            raise Refused(f"{size - at} bytes follow the end of the pickle")


def _take(data: bytes, at: int, count: int) -> tuple[bytes, int]:
    if count > len(data) - at:
        raise Refused("the file ends in the middle of it")
    return data[at : at + count], at + count


def _number(data: bytes, at: int, *, width: int, signed: bool = False) -> tuple[int, int]:
    raw, at = _take(data, at, width)
    return int.from_bytes(raw, "little", signed=signed), at


def _sized_bytes(data: bytes, at: int, *, width: int) -> tuple[bytes, int]:
    count, at = _number(data, at, width=width)
    return _take(data, at, count)


def _sized_text(data: bytes, at: int, *, width: int) -> tuple[str, int]:
    raw, at = _sized_bytes(data, at, width=width)
    return _text(raw), at


def _sized_old_text(data: bytes, at: int, *, width: int) -> tuple[str, int]:
    raw, at = _sized_bytes(data, at, width=width)
    return raw.decode("latin-1"), at


def _sized_integer(data: bytes, at: int, *, width: int) -> tuple[int, int]:
    count, at = _number(data, at, width=width)
    if count > LONGEST_INTEGER:
        raise Refused(f"a whole number of more than {LONGEST_INTEGER} bytes")
    raw, at = _take(data, at, count)
    return int.from_bytes(raw, "little", signed=True), at


def _float(data: bytes, at: int) -> tuple[float, int]:
    raw, at = _take(data, at, 8)
    return struct.unpack(">d", raw)[0], at


def _line(data: bytes, at: int) -> tuple[bytes, int]:
    end = data.find(b"\n", at)
    if end < 0:
        raise Refused("the file ends in the middle of it")
    return data[at:end], end + 1


def _line_integer(data: bytes, at: int) -> tuple[int, int]:
    line, at = _line(data, at)
    digits = line.strip().removesuffix(b"L")
    if len(digits) > _LONGEST_NUMBER or not _NUMBER.fullmatch(digits):
        raise Refused("not a whole number that can be read")
    return int(digits), at


def _line_integer_or_bool(data: bytes, at: int) -> tuple[int, int]:
    line, after = _line(data, at)
    return (line == b"01", after) if line in (b"00", b"01") else _line_integer(data, at)


def _line_index(data: bytes, at: int) -> tuple[int, int]:
    line, at = _line(data, at)
    if len(line) > 10 or not line.isdigit():
        raise Refused("not an index of the memo")
    return int(line), at


def _line_float(data: bytes, at: int) -> tuple[float, int]:
    line, at = _line(data, at)
    try:
        return float(line[:_LONGEST_NUMBER].decode("ascii")), at
    except ValueError:
        raise Refused("not a number that can be read") from None


def _line_text(data: bytes, at: int) -> tuple[str, int]:
    line, at = _line(data, at)
    try:
        return codecs.raw_unicode_escape_decode(line)[0], at
    except UnicodeDecodeError as error:
        raise Refused(f"not readable text: {error.reason}") from None


def _line_quoted(data: bytes, at: int) -> tuple[str, int]:
    line, at = _line(data, at)
    quoted = line.strip()
    if len(quoted) < 2 or quoted[0] not in b"'\"" or quoted[-1] != quoted[0]:
        raise Refused("its quotes do not match")
    return _ESCAPE.sub(_unescape, quoted[1:-1]).decode("latin-1"), at


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code[:1] == b"x" and len(code) == 3:
        return bytes([int(code[1:], 16)])
    if code[:1].isdigit() and code < b"8":
        return bytes([int(code, 8) % 256])
    return _ESCAPES.get(code, match[0])


def _line_global(data: bytes, at: int) -> tuple[Global, int]:
    module, at = _line(data, at)
    name, at = _line(data, at)
    return global_name(_text(module), _text(name)), at


def _protocol(data: bytes, at: int) -> tuple[int, int]:
    version, at = _number(data, at, width=1)
    if version > 5:
        raise Refused(f"protocol {version}; protocols 0 to 5 are known")
    return version, at


def _frame(data: bytes, at: int) -> tuple[int, int]:
    length, at = _number(data, at, width=8)
    if length > len(data) - at:
        raise Refused("the frame is longer than the file")
    return length, at


def _refuse(data: bytes, at: int, *, why: str) -> tuple[Any, int]:
    raise Refused(why)


def _text(raw: bytes) -> str:
    """Half surrogate pairs are let through: Python writes them, and whoever stores text refuses them by name."""
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Refused(f"not UTF-8: {error.reason}") from None


def global_name(module: str, name: str) -> Global:
    """Python 2's names for its own modules are today's."""
    if not name or len(module) > LONGEST_NAME or len(name) > LONGEST_NAME:
        raise Refused(f"a name must have 1 to {LONGEST_NAME} characters")
    return Global(_RENAMED.get(module, module), name)


_RENAMED = {"__builtin__": "builtins", "exceptions": "builtins", "copy_reg": "copyreg"}
_persistent = partial(_refuse, why="asks for an object that only the program that wrote the file can find")
_extension = partial(_refuse, why="asks for a class by its number in a registry of the program that wrote the file")
_buffer = partial(_refuse, why="asks for data that was kept outside the file")
_UNKNOWN: tuple[str, Reader | None] = ("an unknown opcode", partial(_refuse, why="no pickle has this opcode"))

OPCODES: dict[int, tuple[str, Reader | None]] = {
    # numbers, text, bytes: each pushes its argument
    ord("I"): ("INT", _line_integer_or_bool),
    ord("J"): ("BININT", partial(_number, width=4, signed=True)),
    ord("K"): ("BININT1", partial(_number, width=1)),
    ord("M"): ("BININT2", partial(_number, width=2)),
    ord("L"): ("LONG", _line_integer),
    0x8A: ("LONG1", partial(_sized_integer, width=1)),
    0x8B: ("LONG4", partial(_sized_integer, width=4)),
    ord("F"): ("FLOAT", _line_float),
    ord("G"): ("BINFLOAT", _float),
    ord("S"): ("STRING", _line_quoted),
    ord("T"): ("BINSTRING", partial(_sized_old_text, width=4)),
    ord("U"): ("SHORT_BINSTRING", partial(_sized_old_text, width=1)),
    ord("V"): ("UNICODE", _line_text),
    0x8C: ("SHORT_BINUNICODE", partial(_sized_text, width=1)),
    ord("X"): ("BINUNICODE", partial(_sized_text, width=4)),
    0x8D: ("BINUNICODE8", partial(_sized_text, width=8)),
    ord("C"): ("SHORT_BINBYTES", partial(_sized_bytes, width=1)),
    ord("B"): ("BINBYTES", partial(_sized_bytes, width=4)),
    0x8E: ("BINBYTES8", partial(_sized_bytes, width=8)),
    0x96: ("BYTEARRAY8", partial(_sized_bytes, width=8)),
    ord("N"): ("NONE", None),
    0x88: ("NEWTRUE", None),
    0x89: ("NEWFALSE", None),
    # containers
    ord("]"): ("EMPTY_LIST", None),
    ord("a"): ("APPEND", None),
    ord("e"): ("APPENDS", None),
    ord("l"): ("LIST", None),
    ord(")"): ("EMPTY_TUPLE", None),
    ord("t"): ("TUPLE", None),
    0x85: ("TUPLE1", None),
    0x86: ("TUPLE2", None),
    0x87: ("TUPLE3", None),
    ord("}"): ("EMPTY_DICT", None),
    ord("d"): ("DICT", None),
    ord("s"): ("SETITEM", None),
    ord("u"): ("SETITEMS", None),
    0x8F: ("EMPTY_SET", None),
    0x90: ("ADDITEMS", None),
    0x91: ("FROZENSET", None),
    # the stack and the memo
    ord("0"): ("POP", None),
    ord("2"): ("DUP", None),
    ord("("): ("MARK", None),
    ord("1"): ("POP_MARK", None),
    ord("g"): ("GET", _line_index),
    ord("h"): ("BINGET", partial(_number, width=1)),
    ord("j"): ("LONG_BINGET", partial(_number, width=4)),
    ord("p"): ("PUT", _line_index),
    ord("q"): ("BINPUT", partial(_number, width=1)),
    ord("r"): ("LONG_BINPUT", partial(_number, width=4)),
    0x94: ("MEMOIZE", None),
    # classes and what is made of them
    ord("c"): ("GLOBAL", _line_global),
    0x93: ("STACK_GLOBAL", None),
    ord("R"): ("REDUCE", None),
    ord("b"): ("BUILD", None),
    ord("i"): ("INST", _line_global),
    ord("o"): ("OBJ", None),
    0x81: ("NEWOBJ", None),
    0x92: ("NEWOBJ_EX", None),
    # the file itself
    0x80: ("PROTO", _protocol),
    0x95: ("FRAME", _frame),
    ord("."): ("STOP", None),
    # what no file can explain by itself
    ord("P"): ("PERSID", _persistent),
    ord("Q"): ("BINPERSID", _persistent),
    0x82: ("EXT1", _extension),
    0x83: ("EXT2", _extension),
    0x84: ("EXT4", _extension),
    0x97: ("NEXT_BUFFER", _buffer),
    0x98: ("READONLY_BUFFER", _buffer),
}
