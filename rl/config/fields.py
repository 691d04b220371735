"""Checks the fields of a record by their types and bounds."""

import math
from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from rl.base.errors import UsageError

Bounds = tuple[float, float]
_KINDS: Mapping[Any, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    str: (str, "a text"),
    Mapping[str, Any]: (Mapping, "a mapping of keys and values"),
}


def within(low: float, high: float, default: float) -> Any:
    """A number with its bounds. A subclass that gives the field another default leaves them as they are."""
    return field(default=default, metadata={"range": (low, high)})


def ranges_of(kind: type) -> dict[str, Bounds]:
    """Fields that are ``within`` bounds to these."""
    every = [own for base in reversed(kind.__mro__) if is_dataclass(base) for own in fields(base)]
    return {own.name: own.metadata["range"] for own in every if "range" in own.metadata}


def integers_of(kind: type) -> frozenset[str]:
    """Fields that are whole numbers, or None beside them."""
    return frozenset(name for name, hint in get_type_hints(kind).items() if hint in (int, int | None))


def check_fields(record: Any, where: str = "") -> None:
    """Raises UsageError for a value of another type, or out of bounds. ``where``: what stands before its field's name."""
    bounds = ranges_of(type(record))
    for name, hint in get_type_hints(type(record)).items():
        value = getattr(record, name)
        if right := wrong_type(value, hint, bounds.get(name)):
            raise UsageError(f"{where}{name} must be {right}, not {str(value)[:100]!r}")


def check_server_url(url: str, example: str) -> str:
    """Returns the address without a slash at its end. Raises UsageError that shows the ``example``."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"url: {error}") from None
    is_web = parts.scheme in ("http", "https") and host
    if not is_web or parts.query or parts.fragment or parts.username is not None:
        raise UsageError(f"url must look like {example}, without user name, '?' and '#', not {url!r}")
    return url.rstrip("/")


def wrong_type(value: Any, hint: Any, bounds: Bounds | None = None) -> str:
    """Says what the value must be; empty where it is that, or where a configuration file cannot have the type."""
    allowed = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = [kind for kind in allowed if kind is not NoneType]
    if any(kind not in _KINDS for kind in kinds) or (value is None and NoneType in allowed):
        return ""
    is_finite = not isinstance(value, float) or math.isfinite(value)
    fits = any(isinstance(value, _KINDS[kind][0]) and isinstance(value, bool) == (kind is bool) for kind in kinds)
    if fits and is_finite and (bounds is None or bounds[0] <= value <= bounds[1]):
        return ""
    until = f" from {bounds[0]:g} to {bounds[1]:g}" if bounds else ""
    return " or ".join(_KINDS[kind][1] for kind in kinds) + until
