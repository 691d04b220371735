"""The one place that writes feedback events; the API, the rating page and the importers call it.

Every function is safe to repeat: an event that says nothing new is not stored twice. All raise UsageError for what they
refuse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction
from django.utils import timezone

from rl.collect.storable import unstorable
from rl.errors import RunConflict, UsageError
from rl.models import ApiKey, Feedback, Trace

CHUNK = 200
"""Ratings per transaction: a long write would keep every other rater waiting."""
MAX_TAGS, MAX_TAG_LENGTH, MAX_NOTES_LENGTH, MAX_RATER_LENGTH, MAX_METRIC_LENGTH = 20, 60, 4000, 200, 100
ATTEMPTS = 5

_ALLOWED: dict[str, str] = {
    Feedback.Scale.THUMB: "0 or 1",
    Feedback.Scale.STARS: "a whole number from 1 to 5",
    Feedback.Scale.SCORE: "a number from 0 to 1",
}
_CONTENT = ("other_trace_id", "choice", "text", "metric", "scale", "raw_value", "tags", "notes")
"""What an event says, whatever its kind; two events that agree in all of it are the same event sent twice."""


@dataclass(frozen=True, slots=True)
class Rated:
    event: Feedback
    """The event that counts now: the new one, or the earlier one that made it superfluous."""
    created: bool
    """True when the rater had said nothing before (nothing that is current)."""
    changed: bool
    """False when nothing was written: a repeat, or a rating older than the current one."""


def normalise(scale: str, raw: float) -> float:
    """The rating on 0 … 1. Raises UsageError that says what the scale allows."""
    if scale not in _ALLOWED:
        raise UsageError(f"unknown scale {scale!r}; known: {', '.join(_ALLOWED)}")
    if isinstance(raw, (int, float)):
        if scale == Feedback.Scale.THUMB and raw in (0, 1):
            return float(raw)
        if scale == Feedback.Scale.STARS and raw in (1, 2, 3, 4, 5) and not isinstance(raw, bool):
            return (raw - 1) / 4
        if scale == Feedback.Scale.SCORE and 0 <= raw <= 1 and not isinstance(raw, bool):
            return float(raw)
    raise UsageError(f"{scale} takes {_ALLOWED[scale]}, not {raw!r}")


# --- ratings -----------------------------------------------------------------------------------------------------------


def rate(
    trace: Trace,
    *,
    rater: str,
    scale: str,
    value: float,
    tags: Sequence[str] = (),
    notes: str = "",
    rated_at: datetime | None = None,
    source: str,
    user: AbstractBaseUser | None = None,
    api_key: ApiKey | None = None,
) -> Rated:
    """One rating; see ``record``."""
    event = rating(
        trace, rater=rater, scale=scale, value=value, tags=tags, notes=notes, rated_at=rated_at,
        source=source, user=user, api_key=api_key,
    )  # fmt: skip
    return record([event])[0]


def rating(trace: Trace, *, scale: str, value: float, **common: Any) -> Feedback:
    """A checked rating that is not stored yet, for ``record``; takes what ``rate`` takes."""
    normalised = normalise(scale, value)
    return _event(trace, Feedback.Kind.RATING, scale=scale, raw_value=float(value), value=normalised, **common)


def record(ratings: Iterable[Feedback]) -> list[Rated]:
    """Stores ratings in short transactions; each supersedes the current rating of its rater on its trace.

    The latest ``rated_at`` wins, in whatever order they arrive. Raises RunConflict when others keep winning the race for
    the same rating.
    """
    return [rated for chunk in _chunks(ratings) for rated in _record_chunk(chunk)]


def current_rating(trace: Trace, rater: str) -> Feedback | None:
    return Feedback.objects.filter(trace=trace, rater=rater, kind=Feedback.Kind.RATING, is_current=True).first()


def _chunks(ratings: Iterable[Feedback]) -> Iterator[list[Feedback]]:
    """Lists of at most CHUNK in which nobody rates a trace twice: the second rating must see the first."""
    chunk: dict[tuple[Any, str], Feedback] = {}
    for event in ratings:
        if len(chunk) == CHUNK or _target(event) in chunk:
            yield list(chunk.values())
            chunk = {}
        chunk[_target(event)] = event
    if chunk:
        yield list(chunk.values())


def _record_chunk(ratings: list[Feedback]) -> list[Rated]:
    lost: IntegrityError | None = None
    for _ in range(ATTEMPTS):
        try:
            with transaction.atomic():
                return _supersede(ratings)
        except IntegrityError as error:  # feedback_one_current_rating: somebody was faster, so look again
            lost = error
    raise RunConflict(
        "the rating was changed by others at the same time, or its trace was deleted; try again"
    ) from lost


def _supersede(ratings: list[Feedback]) -> list[Rated]:
    last = _last_ratings(ratings)
    decided = [_decide(event, last.get(_target(event))) for event in ratings]
    new = [rated.event for rated in decided if rated.changed]
    replaced = [last[_target(rated.event)].pk for rated in decided if rated.changed and not rated.created]
    if replaced:
        Feedback.objects.filter(pk__in=replaced).update(is_current=False)
    for event in new:
        event.pk = None  # a lost attempt may have left one
    # One order for all writers: two of them inserting the same ratings wait for each other instead of deadlocking.
    Feedback.objects.bulk_create(sorted(new, key=_target))
    return decided


def _last_ratings(ratings: list[Feedback]) -> dict[tuple[Any, str], Feedback]:
    """The newest rating, current or not, by trace and rater. The rows stay locked until the transaction ends."""
    history = Feedback.objects.select_for_update().filter(
        trace__in={event.trace_id for event in ratings},
        rater__in={event.rater for event in ratings},
        kind=Feedback.Kind.RATING,
    )
    return {_target(event): event for event in history.order_by("id")}


def _decide(event: Feedback, last: Feedback | None) -> Rated:
    if last is None:
        return Rated(event, created=True, changed=True)
    if not last.is_current:  # retracted; what was sent before that and arrives late must not bring it back
        newer = event.rated_at > last.rated_at
        return Rated(event if newer else last, created=newer, changed=newer)
    if event.rated_at < last.rated_at or _content(event) == _content(last):
        return Rated(last, created=False, changed=False)
    return Rated(event, created=False, changed=True)


# --- the other events --------------------------------------------------------------------------------------------------


def compare(left: Trace, right: Trace, *, choice: str, **common: Any) -> Rated:
    """A side-by-side pick between two answers to one prompt; ``common`` as for ``rate``."""
    if choice not in Feedback.Choice.values:
        raise UsageError(f"choice must be one of {', '.join(Feedback.Choice.values)}, not {choice!r}")
    if left.pk == right.pk:
        raise UsageError("an answer cannot be compared with itself")
    if (left.agent_id, left.prompt_key) != (right.agent_id, right.prompt_key):
        raise UsageError("only answers of one agent to the same prompt can be compared")
    return _append(_event(left, Feedback.Kind.COMPARISON, other_trace=right, choice=choice, **common))


def correct(trace: Trace, *, text: str, **common: Any) -> Rated:
    """What the answer should have been; ``common`` as for ``rate``."""
    if not text.strip() or text == trace.response:
        raise UsageError("a correction must differ from the answer and must not be empty")
    return _append(_event(trace, Feedback.Kind.CORRECTION, text=_checked(text, "the correction"), **common))


def outcome(trace: Trace, *, metric: str, value: float, **common: Any) -> Rated:
    """A named number that was observed later, on a scale of its own; ``common`` as for ``rate``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UsageError(f"an outcome is a finite number, not {value!r}")
    name = _checked(metric.strip(), "the metric", MAX_METRIC_LENGTH)
    if not name:
        raise UsageError("an outcome needs the name of its metric")
    return _append(_event(trace, Feedback.Kind.OUTCOME, metric=name, raw_value=float(value), **common))


def retract(
    event: Feedback,
    *,
    rater: str,
    source: str,
    notes: str = "",
    user: AbstractBaseUser | None = None,
    api_key: ApiKey | None = None,
) -> bool:
    """Withdraws an event and keeps both in the history; False when it was not current any more."""
    retraction = _event(
        event.trace, Feedback.Kind.RETRACTION, rater=rater, source=source, notes=notes, user=user, api_key=api_key,
        retracts=event, is_current=False,
    )  # fmt: skip
    with transaction.atomic():
        if not Feedback.objects.filter(pk=event.pk, is_current=True).update(is_current=False):
            return False
        retraction.save(force_insert=True)
    event.is_current = False
    return True


def _append(event: Feedback) -> Rated:
    traces = [pk for pk in (event.trace_id, event.other_trace_id) if pk is not None]
    with transaction.atomic():
        # Locked, so that a request and its retry cannot both find that nothing is there yet.
        locked = Trace.objects.select_for_update(no_key=True).filter(pk__in=traces).order_by("pk")
        if len(locked.values_list("pk")) < len(traces):
            raise UsageError("the trace was deleted meanwhile")
        said = Feedback.objects.filter(trace=event.trace_id, rater=event.rater, kind=event.kind, is_current=True)
        for earlier in said:
            if _content(earlier) == _content(event):
                return Rated(earlier, created=False, changed=False)
        event.save(force_insert=True)
    return Rated(event, created=True, changed=True)


# --- building events ---------------------------------------------------------------------------------------------------


def _event(
    trace: Trace,
    kind: Feedback.Kind,
    *,
    rater: str,
    source: str,
    tags: Sequence[str] = (),
    notes: str = "",
    rated_at: datetime | None = None,
    **fields: Any,
) -> Feedback:
    now = timezone.now()
    return Feedback(
        trace=trace,
        agent_id=trace.agent_id,
        kind=kind,
        rater=_checked_rater(rater),
        source=_checked(source, "the source", 32),
        tags=_checked_tags(tags),
        notes=_checked(notes, "the notes", MAX_NOTES_LENGTH),
        # A clock that runs ahead would make this rating win over all later ones.
        rated_at=min(rated_at, now) if rated_at else now,
        **fields,
    )


def _checked_rater(rater: str) -> str:
    if not rater.strip():
        raise UsageError("the rater must be named")
    return _checked(rater, "the rater", MAX_RATER_LENGTH)


def _checked_tags(tags: Sequence[str]) -> list[str]:
    if len(tags) > MAX_TAGS:
        raise UsageError(f"at most {MAX_TAGS} tags, not {len(tags)}")
    return [_checked(tag, "a tag", MAX_TAG_LENGTH) for tag in tags]


def _checked(text: str, what: str, longest: int | None = None) -> str:
    if reason := unstorable(text):
        raise UsageError(f"{what} {reason}")
    if longest is not None and len(text) > longest:
        raise UsageError(f"{what} may be at most {longest} characters long, not {len(text)}")
    return text


def _target(event: Feedback) -> tuple[Any, str]:
    return event.trace_id, event.rater


def _content(event: Feedback) -> tuple[Any, ...]:
    return tuple(getattr(event, name) for name in _CONTENT)
