"""Can an imported answer be stored? Whatever a parser lets through, the database is asked for nothing it refuses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from rl.base.records import Message
from rl.collect.limits import MAX_ID_LENGTH, MAX_MESSAGES, MAX_WHOLE_NUMBER, ROLES
from rl.collect.storable import unstorable
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace

_TEXTS = ("external_id", "prompt_key", "session_id", "response", "agent", "model_version")
_SHORT = ("external_id", "prompt_key", "session_id", "model_version")
_DONE = ("tool_calls", "reasoning_steps", "tasks")
_COUNTS = ("tokens_in", "tokens_out", "llm_calls", "duration_ms")


def problem(record: ImportedTrace) -> str:
    """Why the answer cannot be stored, with the field; empty when it can."""
    return next(chain(_texts(record), _prompt(record.prompt), _answer(record), _figures(record), _contents(record)), "")


def feedback_problem(feedback: ImportedFeedback) -> str:
    """What the writer of feedback does not look at itself."""
    if feedback.value is not None and not _is_number(feedback.value):
        return f"the value is not a number: {feedback.value!r:.50}"
    return next(_time("rated_at", feedback.rated_at), "")


def _texts(record: ImportedTrace) -> Iterator[str]:
    yield from (f"{name} is not text" for name in _TEXTS if not isinstance(getattr(record, name), str))
    if not record.external_id:
        yield "external_id is empty"
    for name in _SHORT:
        if len(getattr(record, name)) > MAX_ID_LENGTH:
            yield f"{name} is longer than {MAX_ID_LENGTH} characters"


def _prompt(prompt: Iterable[Message]) -> Iterator[str]:
    messages = tuple(prompt)
    if not messages:
        yield "the prompt is empty"
    if len(messages) > MAX_MESSAGES:
        yield f"the prompt has more than {MAX_MESSAGES} messages"
    for message in messages:
        if message["role"] not in ROLES or not isinstance(message["content"], str):
            yield f"a message of the prompt must have a role ({', '.join(ROLES)}) and text"


def _answer(record: ImportedTrace) -> Iterator[str]:
    if not record.response.strip() and record.action is None and not record.tool_calls:
        yield "the answer is empty: there is no text, no action and no tool call"


def _figures(record: ImportedTrace) -> Iterator[str]:
    for name in _COUNTS:
        number = getattr(record, name)
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_WHOLE_NUMBER:
            yield f"{name} must be a whole number from 0 to {MAX_WHOLE_NUMBER}, not {number!r:.50}"
    if record.cost is not None and not (_is_number(record.cost) and record.cost >= 0):
        yield f"cost must be a number from 0, not {record.cost!r:.50}"
    yield from _time("occurred_at", record.occurred_at)


def _contents(record: ImportedTrace) -> Iterator[str]:
    values = _values(record)
    if unstorable(list(values.values())):
        yield next((f"{name} {reason}" for name, value in values.items() if (reason := unstorable(value))), "")


def _values(record: ImportedTrace) -> dict[str, Any]:
    texts = {name: getattr(record, name) for name in (*_TEXTS, "prompt", "state", "action")}
    done = {name: [astuple(item) for item in getattr(record, name)] for name in _DONE if getattr(record, name)}
    return {**texts, "details": dict(record.details), **done}


def _is_number(value: object) -> bool:
    """One that a column of floating point numbers holds."""
    if isinstance(value, bool):
        return True
    try:
        return isinstance(value, (int, float)) and math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _time(name: str, time: datetime | None) -> Iterator[str]:
    if time is not None and time.utcoffset() != timedelta(0):
        yield f"{name} is not in UTC"
