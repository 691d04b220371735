"""Harmless types that pickles are full of, rebuilt from checked arguments; everything else becomes an inert record.

Nothing is looked up by a name of the file except in the table at the end, and nothing of the file is called.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

from rl.from_systems.toolbox.checkpoints.opcodes import LONGEST_NAME, Global, OpcodeRefused, Pairs, PickledSet, Record

Charge = Callable[[int], None]
_DECIMAL = re.compile(r"[+-]?[0-9]{1,60}(?:\.[0-9]{0,60})?(?:E[+-]?[0-9]{1,3})?", re.IGNORECASE)


class _Unfit(Exception):
    """These arguments are not those that the type writes."""


def call(callee: Any, arguments: tuple[Any, ...], charge: Charge) -> Any:
    """What is put in the place of ``callee(*arguments)``."""
    if isinstance(callee, Global):
        rebuild = _KNOWN.get(str(callee))
        try:
            if rebuild is not None:
                return rebuild(arguments, charge)
        except (_Unfit, ValueError, OverflowError):
            pass
        return new_object(callee, arguments, charge)
    charge(len(arguments))
    return Record("a call of something that was computed", [callee, *arguments])


def new_object(of: Any, arguments: tuple[Any, ...], charge: Charge) -> Record:
    """What is put in the place of ``of.__new__(of, *arguments)``."""
    if not isinstance(of, Global):
        raise OpcodeRefused("makes an object of something that is not a class")
    charge(len(arguments))
    return Record(str(of), list(arguments))


def _items(value: Any, charge: Charge) -> list[Any]:
    if isinstance(value, PickledSet):
        value = value.items
    if not isinstance(value, (list, tuple)):
        raise _Unfit
    charge(len(value))
    return list(value)


def _require_at_most(count: int, arguments: tuple[Any, ...]) -> None:
    if len(arguments) > count:
        raise _Unfit


def _first_items(most: int, arguments: tuple[Any, ...], charge: Charge) -> list[Any]:
    _require_at_most(most, arguments)
    return _items(arguments[0], charge) if arguments else []


def _mapping(arguments: tuple[Any, ...], charge: Charge) -> Pairs:
    _require_at_most(1, arguments)
    if not arguments:
        return Pairs()
    (value,) = arguments
    if isinstance(value, Pairs):
        charge(len(value.items))
        return Pairs(list(value.items))
    pairs = _items(value, charge)
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise _Unfit
    return Pairs([(key, item) for key, item in pairs])


def _bytes(arguments: tuple[Any, ...], charge: Charge) -> bytes:
    """``bytes()``, ``bytearray(b"…")``, and text in latin-1, which older protocols have instead of bytes."""
    match arguments:
        case ():
            return b""
        case (bytes() as value,):
            return value
        case (str() as text, "latin1" | "latin-1"):
            charge(len(text))
            return text.encode("latin-1")
    raise _Unfit


def _complex(arguments: tuple[Any, ...], charge: Charge) -> str:
    match arguments:
        case (float() | int() as real, float() | int() as imaginary):
            return str(complex(real, imaginary))
    raise _Unfit


def _decimal(arguments: tuple[Any, ...], charge: Charge) -> float:
    match arguments:
        case (str() as text,) if _DECIMAL.fullmatch(text):
            return float(text)
    raise _Unfit


def _path(arguments: tuple[Any, ...], charge: Charge) -> str:
    """The parts, of which the first may be the root."""
    if not arguments or not all(isinstance(part, str) for part in arguments):
        raise _Unfit
    charge(sum(map(len, arguments)))
    root = arguments[0] if arguments[0].endswith(("/", "\\")) else ""
    return root + "/".join(arguments[1:] if root else arguments)


def _datetime(arguments: tuple[Any, ...], charge: Charge) -> datetime:
    packed, zone = _unpack(arguments, 10)
    year, month, day, clock, fold = 256 * packed[0] + packed[1], packed[2] & 127, packed[3], packed[4:], packed[2] >> 7
    return datetime(year, month, day, *_clock(clock), tzinfo=zone, fold=fold)


def _time(arguments: tuple[Any, ...], charge: Charge) -> time:
    packed, zone = _unpack(arguments, 6)
    return time(*_clock(bytes([packed[0] & 127]) + packed[1:]), tzinfo=zone, fold=packed[0] >> 7)


def _date(arguments: tuple[Any, ...], charge: Charge) -> date:
    packed, _ = _unpack(arguments, 4)
    return date(256 * packed[0] + packed[1], packed[2], packed[3])


def _unpack(arguments: tuple[Any, ...], size: int) -> tuple[bytes, timezone | None]:
    """A zone that has a name but no fixed offset is left out: what it means depends on a database of zones."""
    if not 1 <= len(arguments) <= 2:
        raise _Unfit
    packed = arguments[0].encode("latin-1") if isinstance(arguments[0], str) else arguments[0]
    if not isinstance(packed, bytes) or len(packed) != size:
        raise _Unfit
    zone = arguments[-1]
    return packed, zone if isinstance(zone, timezone) else None


def _clock(packed: bytes) -> tuple[int, int, int, int]:
    return packed[0], packed[1], packed[2], int.from_bytes(packed[3:6], "big")


def _timedelta(arguments: tuple[Any, ...], charge: Charge) -> timedelta:
    """Days, seconds, microseconds."""
    if not 1 <= len(arguments) <= 3 or not all(
        type(argument) is int and abs(argument) < 10**9 for argument in arguments
    ):
        raise _Unfit
    return timedelta(*arguments)


def _timezone(arguments: tuple[Any, ...], charge: Charge) -> timezone:
    if not 1 <= len(arguments) <= 2 or not isinstance(arguments[0], timedelta):
        raise _Unfit
    return timezone(arguments[0])


def _named_zone(arguments: tuple[Any, ...], charge: Charge) -> Any:
    """``ZoneInfo._unpickle(key, from_cache)``."""
    if not arguments or not isinstance(arguments[0], str):
        raise _Unfit
    return UTC if arguments[0] in ("UTC", "Etc/UTC") else arguments[0]


def _utc(arguments: tuple[Any, ...], charge: Charge) -> timezone:
    _require_at_most(0, arguments)
    return UTC


def _getattr(arguments: tuple[Any, ...], charge: Charge) -> Global:
    """Older protocols name a class inside a class in this way; it stays a name."""
    match arguments:
        case (Global() as of, str() as name) if 0 < len(name) <= LONGEST_NAME - len(of.name):
            return Global(of.module, f"{of.name}.{name}")
    raise _Unfit


def _reconstructor(arguments: tuple[Any, ...], charge: Charge) -> Record:
    """Protocols 0 and 1: the class, the built-in type that it extends, and its value as one of those."""
    if len(arguments) != 3 or not all(isinstance(argument, Global) for argument in arguments[:2]):
        raise _Unfit
    of, base, value = arguments
    record = new_object(of, (), charge)
    if str(base) == "builtins.dict":
        record.pairs = _mapping((value,), charge)
    elif str(base) == "builtins.list":
        record.elements = _items(value, charge)
    elif str(base) != "builtins.object":
        record.arguments = [value]
    return record


def _newobj(arguments: tuple[Any, ...], charge: Charge) -> Record:
    if not arguments:
        raise _Unfit
    return new_object(arguments[0], arguments[1:], charge)


_KNOWN: dict[str, Callable[[tuple[Any, ...], Charge], Any]] = {
    "_codecs.encode": _bytes,
    "builtins.bytearray": _bytes,
    "builtins.bytes": _bytes,
    "builtins.complex": _complex,
    "builtins.frozenset": lambda arguments, charge: PickledSet(_first_items(1, arguments, charge)),
    "builtins.getattr": _getattr,
    "builtins.set": lambda arguments, charge: PickledSet(_first_items(1, arguments, charge)),
    "collections.Counter": _mapping,
    "collections.OrderedDict": _mapping,
    "collections.defaultdict": lambda arguments, charge: _mapping(arguments[1:], charge),  # its factory is the first
    "collections.deque": lambda arguments, charge: _first_items(2, arguments, charge),  # and its maxlen
    "copyreg.__newobj__": _newobj,
    "copyreg._reconstructor": _reconstructor,
    "datetime.date": _date,
    "datetime.datetime": _datetime,
    "datetime.time": _time,
    "datetime.timedelta": _timedelta,
    "datetime.timezone": _timezone,
    "decimal.Decimal": _decimal,
    "pytz._UTC": _utc,
    "zoneinfo.ZoneInfo._unpickle": _named_zone,
    **{
        f"pathlib{module}.{name}": _path
        for module in ("", "._local")
        for name in ("Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath")
    },
}
