"""What a feedback event says: by this one definition two events are the same one sent twice, or contradict each other."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from rl.models import Feedback

CONTENT = ("other_trace_id", "choice", "text", "metric", "scale", "raw_value", "tags", "notes")
"""What an event says, whatever its kind. The rest of its columns is who said it, when, and what became of it."""


_read = attrgetter(*CONTENT)


def content(event: Feedback) -> tuple[Any, ...]:
    return tuple([tuple(value) if isinstance(value, list) else value for value in _read(event)])


def statement(event: Feedback) -> tuple[Any, ...]:
    """The content with whose it is and what it is about."""
    return event.trace_id, event.rater, event.kind, *content(event)


def say_the_same(event: Feedback, other: Feedback) -> bool:
    return content(event) == content(other)
