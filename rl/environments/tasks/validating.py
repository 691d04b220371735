"""What is wrong with a task as its file has it. Nothing here raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rl.environments.tasks.fields import (
    Field,
    Problem,
    an_object,
    anything,
    describe_field,
    json_kind,
    mistake,
    problems,
    text,
    texts,
    words,
)

MOST_SECONDS = 600.0
"""The most seconds that one test may take."""


def code_problems(row: Any) -> Iterator[Problem]:
    yield from problems(row, CODE_FIELDS)
    if not isinstance(row, dict):
        return
    tests = row.get("tests")
    if tests in (None, []) and not str(row.get("reference_solution") or "").strip():
        yield Problem(describe_field("tests", ""), "is missing" if tests is None else "must have at least one test")
    for number, test in enumerate(tests if isinstance(tests, list) else (), start=1):
        yield from problems(test, TEST_FIELDS, f"test {number}")


def search_problems(row: Any) -> Iterator[Problem]:
    return problems(row, SEARCH_FIELDS)


def any_problems(row: Any) -> Iterator[Problem]:
    return _required_problems(row, ANY_FIELDS)


def prompt_problems(row: Any) -> Iterator[Problem]:
    return _required_problems(row, PROMPT_FIELDS)


def _required_problems(row: Any, fields: Mapping[str, Field]) -> Iterator[Problem]:
    """Other fields may be there, and be anything."""
    if not isinstance(row, dict):
        yield Problem("", f"must be a JSON object, not {json_kind(row)}")
        return
    for name, field in fields.items():
        if what := mistake(row, name, field):
            yield Problem(describe_field(name, ""), what)


def _seconds(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and 0 < value <= MOST_SECONDS:
        return ""
    return f"must be a positive number of seconds, at most {MOST_SECONDS:g}, not {value!r:.50}"


def _language(value: Any) -> str:
    return "" if value in ("python", "") else f"must be python, not {value!r:.50}"


def _tests(value: Any) -> str:
    """What is wrong with the list as a whole."""
    if not isinstance(value, list):
        return f"must be a list of tests, not {json_kind(value)}"
    silent = value and all(isinstance(test, dict) and not str(test.get("output", "?")).strip() for test in value)
    return "has no test that expects output, so every program would pass" if silent else ""


CODE_FIELDS: Mapping[str, Field] = {
    "task_id": Field(words, required=True),
    "prompt": Field(words, required=True),
    "starter_code": Field(text),
    "tests": Field(_tests),
    "language": Field(_language),
    "reference_solution": Field(text),
    "ground_truth": Field(anything),
    "metadata": Field(an_object),
}
TEST_FIELDS: Mapping[str, Field] = {
    "input": Field(text),
    "output": Field(text, required=True),
    "description": Field(text),
    "timeout": Field(_seconds),
}
SEARCH_FIELDS: Mapping[str, Field] = {
    "task_id": Field(words, required=True),
    "question": Field(words, required=True),
    "answer": Field(words, required=True),
    "documents": Field(texts),
    "metadata": Field(an_object),
}
ANY_FIELDS = {"task_id": SEARCH_FIELDS["task_id"]}
PROMPT_FIELDS = {**ANY_FIELDS, "prompt": Field(words, required=True)}
