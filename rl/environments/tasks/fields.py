"""What a part of a task may be. Nothing here raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple


class Problem(NamedTuple):
    field: str
    """As a person finds it, ``field 'timeout' of test 2``; empty where the whole line is wrong."""
    what: str


class Field(NamedTuple):
    check: Callable[[Any], str]
    """What is wrong with a value, empty when nothing is. Null is asked about only where the field is required."""
    required: bool = False


def problems(row: Any, fields: Mapping[str, Field], of: str = "") -> Iterator[Problem]:
    """``of``: what the row is a part of the line; the line itself when empty."""
    if not isinstance(row, dict):
        yield Problem(of, f"must be a JSON object, not {json_kind(row)}")
        return
    for name in row:
        if name not in fields:
            what = f"unknown; known: {', '.join(fields)} (what is yours belongs in metadata)"
            yield Problem(describe_field(name, of), what)
    for name, field in fields.items():
        if what := mistake(row, name, field):
            yield Problem(describe_field(name, of), what)


def mistake(row: Mapping[str, Any], name: str, field: Field) -> str:
    if name not in row:
        return "is missing" if field.required else ""
    return "" if row[name] is None and not field.required else field.check(row[name])


def describe_field(name: str, of: str) -> str:
    return f"field {name!r} of {of}" if of else f"field {name!r}"


def text(value: Any) -> str:
    return "" if isinstance(value, str) else f"must be text, not {json_kind(value)}"


def words(value: Any) -> str:
    return text(value) or ("" if value.strip() else "must not be empty")


def an_object(value: Any) -> str:
    return "" if isinstance(value, dict) else f"must be an object, not {json_kind(value)}"


def anything(_value: Any) -> str:
    return ""


def texts(value: Any) -> str:
    if not isinstance(value, list):
        return f"must be a list of texts, not {json_kind(value)}"
    wrong = next(
        (f"number {at} is {json_kind(entry)}" for at, entry in enumerate(value, 1) if not isinstance(entry, str)), ""
    )
    return f"must be a list of texts, but {wrong}" if wrong else ""


def json_kind(value: Any) -> str:
    """In the words of JSON."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    known = ((str, "text"), (list, "a list"), (dict, "an object"))
    return next((word for kind, word in known if isinstance(value, kind)), "a number")
