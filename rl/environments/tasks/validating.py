"""What is wrong with a task as its file has it. Nothing here raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

MOST_SECONDS = 600.0
"""That one test may take."""


class Problem(NamedTuple):
    field: str
    """As a person finds it, ``field 'timeout' of test 2``; empty where the whole line is wrong."""
    what: str


class Field(NamedTuple):
    check: Callable[[Any], str]
    """What is wrong with a value, empty when nothing is. Null is asked about only where the field is required."""
    required: bool = False


def code_problems(row: Any) -> Iterator[Problem]:
    yield from _problems(row, CODE_FIELDS)
    tests = row.get("tests") if isinstance(row, dict) else None
    for number, test in enumerate(tests if isinstance(tests, list) else (), start=1):
        yield from _problems(test, TEST_FIELDS, f"test {number}")


def search_problems(row: Any) -> Iterator[Problem]:
    return _problems(row, SEARCH_FIELDS)


def _problems(row: Any, fields: Mapping[str, Field], of: str = "") -> Iterator[Problem]:
    """``of``: what the row is a part of the line; the line itself when empty."""
    if not isinstance(row, dict):
        yield Problem(of, f"must be a JSON object, not {_kind(row)}")
        return
    for name in row:
        if name not in fields:
            yield Problem(_named(name, of), f"unknown; known: {', '.join(fields)} (what is yours belongs in metadata)")
    for name, field in fields.items():
        if what := _wrong(row, name, field):
            yield Problem(_named(name, of), what)


def _wrong(row: Mapping[str, Any], name: str, field: Field) -> str:
    if name not in row:
        return "is missing" if field.required else ""
    return "" if row[name] is None and not field.required else field.check(row[name])


def _named(name: str, of: str) -> str:
    return f"field {name!r} of {of}" if of else f"field {name!r}"


def _text(value: Any) -> str:
    return "" if isinstance(value, str) else f"must be text, not {_kind(value)}"


def _words(value: Any) -> str:
    return _text(value) or ("" if value.strip() else "must not be empty")


def _object(value: Any) -> str:
    return "" if isinstance(value, dict) else f"must be an object, not {_kind(value)}"


def _anything(_value: Any) -> str:
    return ""


def _seconds(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and 0 < value <= MOST_SECONDS:
        return ""
    return f"must be a positive number of seconds, at most {MOST_SECONDS:g}, not {value!r:.50}"


def _texts(value: Any) -> str:
    if not isinstance(value, list):
        return f"must be a list of texts, not {_kind(value)}"
    wrong = next((f"number {at} is {_kind(one)}" for at, one in enumerate(value, 1) if not isinstance(one, str)), "")
    return f"must be a list of texts, but {wrong}" if wrong else ""


def _tests(value: Any) -> str:
    """Of the list as a whole."""
    if not isinstance(value, list):
        return f"must be a list of tests, not {_kind(value)}"
    if not value:
        return "must have at least one test"
    silent = all(isinstance(test, dict) and not str(test.get("output", "?")).strip() for test in value)
    return "has no test that expects output, so every program would pass" if silent else ""


def _kind(value: Any) -> str:
    """In the words of JSON."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    words = ((str, "text"), (list, "a list"), (dict, "an object"))
    return next((word for kind, word in words if isinstance(value, kind)), "a number")


CODE_FIELDS: Mapping[str, Field] = {
    "task_id": Field(_words, required=True),
    "prompt": Field(_words, required=True),
    "starter_code": Field(_text),
    "tests": Field(_tests, required=True),
    "reference_solution": Field(_text),
    "ground_truth": Field(_anything),
    "metadata": Field(_object),
}
TEST_FIELDS: Mapping[str, Field] = {
    "input": Field(_text),
    "output": Field(_text, required=True),
    "description": Field(_text),
    "timeout": Field(_seconds),
}
SEARCH_FIELDS: Mapping[str, Field] = {
    "task_id": Field(_words, required=True),
    "question": Field(_words, required=True),
    "answer": Field(_words, required=True),
    "documents": Field(_texts),
    "metadata": Field(_object),
}
