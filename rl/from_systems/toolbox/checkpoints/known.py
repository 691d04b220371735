"""Harmless types that pickles are full of, rebuilt from checked arguments; everything else becomes an inert record.

Nothing is looked up by a name of the file except in the table at the end, and nothing of the file is called."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

from rl.from_systems.toolbox.checkpoints.opcodes import LONGEST_NAME, Global, OpcodeRefused, Pairs, PickledSet, Record

Charge = Callable[[int], None]
_DECIMAL = re.compile(r"[+-]?[0-9]{1,60}(?:\.[0-9]{0,60})?(?:E[+-]?[0-9]{1,3})?", re.IGNORECASE)
_PATHS = ("Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath")
_PACKED = {"datetime": 10, "date": 4, "time": 6}
"""Bytes that each type writes itself as."""


def call(callee: Any, arguments: tuple[Any, ...], charge: Charge) -> Any:
    """What is put in the place of ``callee(*arguments)``."""
    if not isinstance(callee, Global):
        charge(len(arguments))
        return Record("a call of something that was computed", [callee, *arguments])
    rebuild = _BY_MODULE.get(callee.module)
    try:
        made = rebuild(callee.name, arguments, charge) if rebuild else None
    except (ValueError, OverflowError):
        made = None
    return new_object(callee, arguments, charge) if made is None else made


def new_object(of: Any, arguments: tuple[Any, ...], charge: Charge) -> Record:
    """What is put in the place of ``of.__new__(of, *arguments)``."""
    if not isinstance(of, Global):
        raise OpcodeRefused("makes an object of something that is not a class")
    charge(len(arguments))
    return Record(str(of), list(arguments))


def _items(value: Any, charge: Charge) -> list[Any]:
    """Raises ValueError, as all below, for what the type does not write."""
    value = value.items if isinstance(value, PickledSet) else value
    if not isinstance(value, (list, tuple)):
        raise ValueError
    charge(len(value))
    return list(value)


def _mapping(value: Any, charge: Charge) -> Pairs:
    if isinstance(value, Pairs):
        return Pairs(_items(value.items, charge))
    pairs = _items(value, charge)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise ValueError
    return Pairs([(key, item) for key, item in pairs])


def _builtin(name: str, arguments: tuple[Any, ...], charge: Charge) -> Any:
    """None, as of all below, for another type, or for arguments that the type does not write."""
    match name, arguments:
        case "set" | "frozenset", ():
            return PickledSet()
        case "set" | "frozenset", (items,):
            return PickledSet(_items(items, charge))
        case "bytes" | "bytearray", ():
            return b""
        case "bytes" | "bytearray", (bytes() as value,):
            return value
        case "bytes" | "bytearray" | "encode", (str() as text, "latin1" | "latin-1"):  # older protocols have no bytes
            charge(len(text))
            return text.encode("latin-1")
        case "complex", (float() | int() as real, float() | int() as imaginary):
            return str(complex(real, imaginary))
        case "getattr", (Global() as of, str() as inner) if 0 < len(inner) <= LONGEST_NAME - len(of.name):
            return Global(of.module, f"{of.name}.{inner}")  # so older protocols name a class inside a class
    return None


def _collection(name: str, arguments: tuple[Any, ...], charge: Charge) -> Any:
    match name, arguments:
        case "deque", ():
            return []
        case "deque", (items,) | (items, _):  # and its maxlen
            return _items(items, charge)
        case ("Counter" | "OrderedDict", ()) | ("defaultdict", () | (_,)):
            return Pairs()
        case ("Counter" | "OrderedDict", (items,)) | ("defaultdict", (_, items)):  # whose factory is the first
            return _mapping(items, charge)
    return None


def _object(name: str, arguments: tuple[Any, ...], charge: Charge) -> Record | None:
    match name, arguments:
        case "__newobj__", (of, *others):
            return new_object(of, tuple(others), charge)
        case "_reconstructor", (Global() as of, Global() as base, value):
            # protocols 0 and 1: the class, the built-in type that it extends, and its value as one of those
            record = new_object(of, (), charge)
            match str(base):
                case "builtins.dict":
                    record.pairs = _mapping(value, charge)
                case "builtins.list":
                    record.elements = _items(value, charge)
                case other if other != "builtins.object":
                    record.arguments = [value]
            return record
    return None


def _moment(name: str, arguments: tuple[Any, ...], _: Charge) -> Any:
    match name, arguments:
        case "timezone", (timedelta() as offset,) | (timedelta() as offset, _):
            return timezone(offset)
        case "timedelta", (_,) | (_, _) | (_, _, _):  # days, seconds, microseconds
            if all(type(argument) is int and abs(argument) < 10**9 for argument in arguments):
                return timedelta(*arguments)
        case "date" | "time" | "datetime", (packed,) | (packed, _):
            return _unpack(name, packed.encode("latin-1") if isinstance(packed, str) else packed, arguments[-1])
    return None


def _unpack(name: str, packed: Any, zone: Any) -> date | time | None:
    """A zone that has a name but no fixed offset is left out: what it means depends on a database of zones."""
    if not isinstance(packed, bytes) or len(packed) != _PACKED[name]:
        return None
    zone, of_second = zone if isinstance(zone, timezone) else None, int.from_bytes(packed[-3:], "big")
    if name == "time":
        return time(packed[0] & 127, packed[1], packed[2], of_second, tzinfo=zone, fold=packed[0] >> 7)
    year, month, day = 256 * packed[0] + packed[1], packed[2], packed[3]
    if name == "date":
        return date(year, month, day)
    hour, minute, second = packed[4:7]
    return datetime(year, month & 127, day, hour, minute, second, of_second, tzinfo=zone, fold=month >> 7)


def _zone(name: str, arguments: tuple[Any, ...], _: Charge) -> Any:
    match name, arguments:
        case ("_UTC", ()) | ("ZoneInfo._unpickle", ("UTC" | "Etc/UTC", *_)):
            return UTC
        case "ZoneInfo._unpickle", (str() as key, *_):
            return key
    return None


def _decimal(name: str, arguments: tuple[Any, ...], _: Charge) -> float | None:
    match name, arguments:
        case "Decimal", (str() as text,) if _DECIMAL.fullmatch(text):
            return float(text)
    return None


def _path(name: str, arguments: tuple[Any, ...], charge: Charge) -> str | None:
    """The parts, of which the first may be the root."""
    if name not in _PATHS or not arguments or not all(isinstance(part, str) for part in arguments):
        return None
    charge(sum(map(len, arguments)))
    root = arguments[0] if arguments[0].endswith(("/", "\\")) else ""
    return root + "/".join(arguments[1:] if root else arguments)


_BY_MODULE: dict[str, Callable[[str, tuple[Any, ...], Charge], Any]] = {
    **dict.fromkeys(("_codecs", "builtins"), _builtin),
    "collections": _collection,
    "copyreg": _object,
    "datetime": _moment,
    "decimal": _decimal,
    **dict.fromkeys(("pathlib", "pathlib._local"), _path),
    **dict.fromkeys(("pytz", "zoneinfo"), _zone),
}
"""The module that a pickle names to what rebuilds its types."""
