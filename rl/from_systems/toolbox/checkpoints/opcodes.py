"""The opcodes of a pickle with their arguments, as ``pickletools`` of the standard library reads them: as data. After PEP
307, 3154 and 574: protocols 0 to 5. Where it speaks of classes, inert records are made, which have no behaviour and are
never hashed. Real pickles ask for far less than the limits; what is beyond is refused before it costs memory or time."""

import codecs
import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final

LONGEST_INTEGER = 255
"""Bytes; turning a number of millions of digits into text takes minutes."""
LONGEST_NAME = 1000
"""Characters of the name of a module, or of a class in it."""


@dataclass(frozen=True, slots=True)
class PickleLimits:
    file_bytes: int = 64 * 2**20
    opcodes: int = 5_000_000
    memo: int = 2_000_000
    """Entries, and the largest index."""
    stack: int = 500_000
    """Values that wait on the stack, and marks."""
    depth: int = 100
    """Levels of containers and objects within each other."""
    copied: int = 16_000_000
    """Items and characters that are copied when a known type is rebuilt: the memo lets three bytes of a file ask for
    another copy of everything."""


class OpcodeRefused(Exception):
    """What is wrong with the opcode at hand; the reader adds which file, where, and which opcode."""


@dataclass(slots=True, eq=False)
class Pairs:
    """A dict as the file tells it: no key is hashed, a later one replaces an earlier one when it becomes plain."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class PickledSet:
    """A set or frozenset, in the order of the file."""

    items: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Global:
    """The name of something that the file wants imported. Nobody looks for it."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Record:
    """What the file wants made by calling ``class_name``, and what it wants done to it afterwards."""

    class_name: str
    arguments: list[Any] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    """The states that ``__setstate__`` or ``__dict__`` would have got."""
    elements: list[Any] = field(default_factory=list)
    """The elements, where the class is a list."""
    pairs: Pairs = field(default_factory=Pairs)
    """The items, where the class is a dict, and keyword arguments."""


_BY_CODE: Final = {opcode.code: opcode for opcode in pickletools.opcodes}
_NUMBERS: Final = ("INT", "LONG", "FLOAT", "GET", "PUT")
"""Opcodes whose argument is a number in text."""
_RENAMED: Final = {"__builtin__": "builtins", "exceptions": "builtins", "copy_reg": "copyreg"}
_OUTSIDE: Final = {
    **dict.fromkeys(("PERSID", "BINPERSID"), "asks for an object that only the program that wrote the file can find"),
    **dict.fromkeys(
        ("EXT1", "EXT2", "EXT4"), "asks for a class by its number in a registry of the program that wrote the file"
    ),
    **dict.fromkeys(("NEXT_BUFFER", "READONLY_BUFFER"), "asks for data that was kept outside the file"),
}
"""What no file can explain by itself."""


class Operations:
    """Iterates over (opcode's name, argument). ``offset`` and ``name`` say where it is, for whoever reports an error."""

    def __init__(self, data: bytes) -> None:
        self.data, self.offset, self.name = data, 0, "the beginning"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        stream = BytesIO(self.data)
        while self.name != "STOP":
            self.offset = stream.tell()
            if not (code := stream.read(1)):
                raise OpcodeRefused("the file ends without STOP")
            opcode = _BY_CODE.get(code.decode("latin-1"))
            if opcode is None:
                self.name = "an unknown opcode"
                raise OpcodeRefused("no pickle has this opcode")
            self.name = opcode.name
            if reason := _OUTSIDE.get(self.name):
                raise OpcodeRefused(reason)
            try:
                argument = self._read(opcode, stream)
            except ValueError as error:
                raise OpcodeRefused(f"its argument cannot be read: {str(error)[:200]}") from None
            yield self.name, argument
        if rest := len(self.data) - stream.tell():
            raise OpcodeRefused(f"{rest} bytes follow the end of the pickle")

    def _read(self, opcode: pickletools.OpcodeInfo, stream: BytesIO) -> Any:
        """Raises ValueError and OpcodeRefused."""
        if reader := _OURS.get(self.name):
            return reader(stream)
        argument: Any = opcode.arg.reader(stream) if opcode.arg else None
        if type(argument) is int and argument.bit_length() > LONGEST_INTEGER * 8:
            raise OpcodeRefused(f"a whole number of more than {LONGEST_INTEGER} bytes")
        if self.name == "FRAME" and argument > len(self.data) - stream.tell():
            raise OpcodeRefused("the frame is longer than the file")
        if self.name == "PROTO" and argument > 5:
            raise OpcodeRefused(f"protocol {argument}; protocols 0 to 5 are known")
        if self.name in ("GET", "PUT") and argument < 0:
            raise OpcodeRefused("not an index of the memo")
        if self.name in _NUMBERS and b"_" in self.data[self.offset : stream.tell()]:  # Python writes none
            raise OpcodeRefused("not a number that can be read")
        return bytes(argument) if isinstance(argument, bytearray) else argument


def _read_quoted(stream: BytesIO) -> str:
    """Text of Python 2, whose bytes may be any."""
    raw: Any = pickletools.read_stringnl(stream, decode=False, stripquotes=False).strip()
    if len(raw) < 2 or raw[0] not in b"'\"" or raw[-1] != raw[0]:
        raise OpcodeRefused("its quotes do not match")
    return codecs.escape_decode(raw[1:-1])[0].decode("latin-1")


def _read_global(stream: BytesIO) -> Global:
    lines: list[Any] = [pickletools.read_stringnl(stream, decode=False, stripquotes=False) for _ in range(2)]
    module, name = (line.decode("utf-8", "surrogatepass") for line in lines)
    return global_name(module, name)


def global_name(module: str, name: str) -> Global:
    """Python 2's names for its own modules are today's."""
    if not name or len(module) > LONGEST_NAME or len(name) > LONGEST_NAME:
        raise OpcodeRefused(f"a name must have 1 to {LONGEST_NAME} characters")
    return Global(_RENAMED.get(module, module), name)


_OURS: dict[str, Callable[[BytesIO], Any]] = {"STRING": _read_quoted, "GLOBAL": _read_global, "INST": _read_global}
"""Arguments that may have more than the ASCII that ``pickletools`` expects."""
