"""Checked feedback events that are not stored yet; ``rl.collect.feedback.write`` writes them.

All raise UsageError for what they refuse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.utils import timezone

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.base.slugs import check_name
from rl.collect.inserting import RowMaker
from rl.collect.limits import MAX_METRIC_LENGTH, MAX_NOTES_LENGTH, MAX_RATER_LENGTH, MAX_TAG_LENGTH, MAX_TAGS
from rl.collect.storable import unstorable
from rl.models import Feedback, Trace

_ALLOWED: dict[str, str] = {
    Feedback.Scale.THUMB: "0 or 1",
    Feedback.Scale.STARS: "a whole number from 1 to 5",
    Feedback.Scale.SCORE: "a number from 0 to 1",
}


def normalise(scale: str, raw: float) -> float:
    """The rating on 0 … 1. Raises UsageError that says what the scale allows."""
    require_known("scale", scale, _ALLOWED)
    if isinstance(raw, (int, float)):
        if scale == Feedback.Scale.THUMB and raw in (0, 1):
            return float(raw)
        if scale == Feedback.Scale.STARS and raw in (1, 2, 3, 4, 5) and not isinstance(raw, bool):
            return (raw - 1) / 4
        if scale == Feedback.Scale.SCORE and 0 <= raw <= 1 and not isinstance(raw, bool):
            return float(raw)
    raise UsageError(f"{scale} takes {_ALLOWED[scale]}, not {raw!r}")


def rating(trace: Trace | UnreadTrace, *, scale: str, value: float, **common: Any) -> Feedback:
    """``common`` as ``new_event`` takes it."""
    normalised = normalise(scale, value)
    return new_event(trace, Feedback.Kind.RATING, scale=scale, raw_value=float(value), value=normalised, **common)


def comparison(left: Trace, right: Trace, *, choice: str, **common: Any) -> Feedback:
    if choice not in Feedback.Choice.values:
        raise UsageError(f"choice must be one of {', '.join(Feedback.Choice.values)}, not {choice!r}")
    if left.pk == right.pk:
        raise UsageError("an answer cannot be compared with itself")
    if (left.agent_id, left.prompt_key) != (right.agent_id, right.prompt_key):
        raise UsageError("only answers of one agent to the same prompt can be compared")
    return new_event(left, Feedback.Kind.COMPARISON, other_trace=right, choice=choice, **common)


def correction(trace: Trace, *, text: str, **common: Any) -> Feedback:
    if not text.strip() or text == trace.response:
        raise UsageError("a correction must differ from the answer and must not be empty")
    return new_event(trace, Feedback.Kind.CORRECTION, text=_check_text(text, "the correction"), **common)


def observation(trace: Trace, *, metric: str, value: float, **common: Any) -> Feedback:
    """An outcome: a named number that was observed later, on a scale of its own."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UsageError(f"an outcome is a finite number, not {value!r}")
    name = _check_text(metric.strip(), "the metric", MAX_METRIC_LENGTH)
    if not name:
        raise UsageError("an outcome needs the name of its metric")
    return new_event(trace, Feedback.Kind.OUTCOME, metric=name, raw_value=float(value), **common)


class UnreadTrace(NamedTuple):
    """Stands for a trace that may exist or not: whoever writes the event will see."""

    pk: UUID
    agent_id: int | None
    """None: any agent's will do."""


def new_event(
    trace: Trace | UnreadTrace,
    kind: Feedback.Kind,
    *,
    rater: str,
    source: str,
    tags: Sequence[str] = (),
    notes: str = "",
    rated_at: datetime | None = None,
    **fields: Any,
) -> Feedback:
    if not rater.strip():
        raise UsageError("the rater must be named")
    rater = _check_text(rater, "the rater", MAX_RATER_LENGTH)
    if kind != Feedback.Kind.RETRACTION:  # what was recorded under any name can be taken back under it
        check_name(rater, "the rater's name")
    now = timezone.now()
    related = {name: fields.pop(name) for name in _RELATED if name in fields}
    if len(tags) > MAX_TAGS:
        raise UsageError(f"at most {MAX_TAGS} tags, not {len(tags)}")
    return _new_feedback(
        {
            "trace_id": trace.pk,
            "agent_id": trace.agent_id,
            "kind": kind.value,
            "rater": rater,
            "source": _check_text(source, "the source", 32),
            "tags": [_check_text(tag, "a tag", MAX_TAG_LENGTH) for tag in tags],
            "notes": _check_text(notes, "the notes", MAX_NOTES_LENGTH),
            # A clock that runs ahead would make this rating win over all later ones.
            "rated_at": min(rated_at, now) if rated_at else now,
            **{f"{name}_id": row and row.pk for name, row in related.items()},
            **fields,
        },
        **related,
        **({"trace": trace} if isinstance(trace, Trace) else {}),
    )


_RELATED = ("other_trace", "api_key", "user", "retracts")
_new_feedback = RowMaker(Feedback)


def _check_text(text: str, what: str, longest: int | None = None) -> str:
    if reason := unstorable(text):
        raise UsageError(f"{what} {reason}")
    if longest is not None and len(text) > longest:
        raise UsageError(f"{what} may be at most {longest} characters long, not {len(text)}")
    return text


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
