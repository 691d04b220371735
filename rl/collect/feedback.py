"""The one place that writes feedback events; the API, the rating page and the importers call it.

Every function is safe to repeat: an event that says nothing new is not stored twice. All raise UsageError for what they
refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction

from rl.collect.events import comparison, correction, observation, rating
from rl.collect.events import event as checked_event
from rl.errors import RunConflict, UsageError
from rl.models import ApiKey, Feedback, Trace

CHUNK = 200
"""Ratings per transaction: a long write would keep every other rater waiting."""
ATTEMPTS = 5

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
    _await_reward({event.trace_id for event in new})
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
    return append([comparison(left, right, choice=choice, **common)])[0]


def correct(trace: Trace, *, text: str, **common: Any) -> Rated:
    """What the answer should have been; ``common`` as for ``rate``."""
    return append([correction(trace, text=text, **common)])[0]


def outcome(trace: Trace, *, metric: str, value: float, **common: Any) -> Rated:
    """A named number that was observed later, on a scale of its own; ``common`` as for ``rate``."""
    return append([observation(trace, metric=metric, value=value, **common)])[0]


def append(events: Sequence[Feedback]) -> list[Rated]:
    """Stores comparisons, corrections and outcomes in short transactions; they stand beside each other."""
    return [said for at in range(0, len(events), CHUNK) for said in _append_chunk(events[at : at + CHUNK])]


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
    retraction = checked_event(
        event.trace, Feedback.Kind.RETRACTION, rater=rater, source=source, notes=notes, user=user, api_key=api_key,
        retracts=event, is_current=False,
    )  # fmt: skip
    with transaction.atomic():
        if not Feedback.objects.filter(pk=event.pk, is_current=True).update(is_current=False):
            return False
        retraction.save(force_insert=True)
        _await_reward({event.trace_id})
    event.is_current = False
    return True


def _append_chunk(events: Sequence[Feedback]) -> list[Rated]:
    traces = {pk for event in events for pk in (event.trace_id, event.other_trace_id) if pk is not None}
    with transaction.atomic():
        # Locked, so that a request and its retry cannot both find that nothing is there yet.
        locked = Trace.objects.select_for_update(no_key=True).filter(pk__in=traces).order_by("pk")
        if len(locked.values_list("pk")) < len(traces):
            raise UsageError("the trace was deleted meanwhile")
        said = _said(events)
        recorded = [_unless_said(event, said) for event in events]
        new = [one.event for one in recorded if one.changed]
        Feedback.objects.bulk_create(new)
        _await_reward({event.trace_id for event in new})
    return recorded


def _said(events: Sequence[Feedback]) -> dict[tuple[Any, ...], Feedback]:
    """What these raters said about these traces, by what it says; retracted where it does not stand any more."""
    history = Feedback.objects.filter(
        trace__in={event.trace_id for event in events},
        rater__in={event.rater for event in events},
        kind__in={event.kind for event in events},
    )
    return {_statement(event): event for event in history.order_by("is_current", "rated_at")}


def _unless_said(event: Feedback, said: dict[tuple[Any, ...], Feedback]) -> Rated:
    first = said.get(_statement(event))
    # What was retracted stays so, until it is said anew: importing the file again is nothing new.
    if first is not None and (first.is_current or event.rated_at <= first.rated_at):
        return Rated(first, created=False, changed=False)
    said[_statement(event)] = event
    return Rated(event, created=True, changed=True)


def _await_reward(traces: set[UUID]) -> None:
    """What was said may change the rewards of these traces. Locks them all: a reward that is written at the same moment
    either saw what was said, or waits and looks again."""
    locked = Trace.objects.select_for_update(no_key=True).filter(pk__in=traces).order_by("pk")
    rewarded = [pk for pk, pending in locked.values_list("pk", "reward_pending") if not pending]
    if rewarded:
        Trace.objects.filter(pk__in=rewarded).update(reward_pending=True)


def _target(event: Feedback) -> tuple[Any, str]:
    return event.trace_id, event.rater


def _statement(event: Feedback) -> tuple[Any, ...]:
    return event.trace_id, event.rater, event.kind, *_content(event)


def _content(event: Feedback) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value := getattr(event, name), list) else value for name in _CONTENT)
