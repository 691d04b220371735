"""The one place that writes feedback events; the API, the rating page and the importers call it.

Every function is safe to repeat: an event that says nothing new is not stored twice. All raise UsageError for what they
refuse."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db import DataError, IntegrityError, transaction
from django.db.models import Q

from rl.base.errors import RunConflict, UsageError
from rl.collect.feedback.events import (
    UnreadTrace,
    comparison,
    correction,
    new_event,
    observation,
    rating,
    say_the_same,
    statement,
)
from rl.collect.feedback.group_commit import GroupCommit, result_of
from rl.collect.feedback.rating_rows import (
    RatedTrace,
    Target,
    await_reward,
    insert_first,
    lock_traces,
    newest_ratings,
    supersede,
    target_of,
)
from rl.collect.feedback.tokens import TokenRaters
from rl.collect.inserting import insert_numbered
from rl.collect.traces.rows import chunks, look_again
from rl.models import Feedback, Trace

CHUNK = 500
"""Ratings per transaction: a long write would keep every other rater waiting."""
CHANGED_BY_OTHERS = "the rating was changed by others at the same time; try again"


@dataclass(frozen=True, slots=True)
class Rated:
    event: Feedback
    """The event that counts now: the new one, or the earlier one that made it superfluous."""
    created: bool
    """True when the rater had said nothing before (nothing that is current)."""
    changed: bool
    """False when nothing was written: a repeat, or a rating older than the current one."""


class UnknownTrace(UsageError):
    def __init__(self, trace_id: UUID) -> None:
        self.trace_id = trace_id
        super().__init__(f"there is no trace {trace_id}; it may have been deleted meanwhile")


def rate(trace: Trace | UnreadTrace, *, scale: str, value: float, **common: Any) -> Rated:
    """One rating; see ``record``; ``common`` as for ``new_event``. Ratings that come at the same time share a commit.

    Raises UnknownTrace where no trace of this agent has this id, and TokenSpent."""
    event = rating(trace, scale=scale, value=value, **common)
    if event.token_raters and (spent := TokenRaters([event]).refusal(event)):  # nobody need wait for that
        raise spent
    return _RATINGS.submit(event)


def record(ratings: Iterable[Feedback]) -> list[Rated]:
    """Stores ratings in short transactions; each supersedes the current rating of its rater on its trace.

    The latest ``rated_at`` wins, in whatever order they arrive. Raises RunConflict when others keep winning the race for
    the same rating, UnknownTrace where a trace was deleted, and TokenSpent."""
    return [result_of(outcome) for chunk in _chunks(ratings) for outcome in _record_chunk(chunk)]


def record_each(ratings: Sequence[Feedback]) -> list[Rated | Exception]:
    """Like ``record``, with the outcome of each: a bad one fails alone. They share a transaction where none fails."""
    return [outcome for chunk in _chunks(ratings) for outcome in _record_together(chunk)]


def record_or_raise(ratings: Sequence[Feedback]) -> list[Feedback]:
    """The event of each that counts now, in a transaction of the caller's, which is over where this raises what any of them
    raises."""
    insert_first(ratings, savepoint=False)
    return [result_of(outcome).event for outcome in _record_rest(ratings)]


def current_rating(trace: Trace, rater: str) -> Feedback | None:
    return Feedback.objects.filter(trace=trace, rater=rater, kind=Feedback.Kind.RATING, is_current=True).first()


def _chunks(ratings: Iterable[Feedback]) -> Iterator[list[Feedback]]:
    """Lists of at most CHUNK in which nobody rates a trace twice: the second rating must see the first."""
    chunk: dict[Target, Feedback] = {}
    for event in ratings:
        if len(chunk) == CHUNK or target_of(event) in chunk:
            yield list(chunk.values())
            chunk = {}
        chunk[target_of(event)] = event
    if chunk:
        yield list(chunk.values())


def _record_together(ratings: Sequence[Feedback]) -> list[Rated | Exception]:
    with suppress(IntegrityError, DataError):  # because of some of them
        insert_first([event for event in ratings if not event.token_raters])  # raters are counted under a lock
    return _record_rest(ratings)


def _record_rest(ratings: Sequence[Feedback]) -> list[Rated | Exception]:
    others = [event for event in ratings if event.pk is None]
    recorded = dict(zip(map(id, others), _record_others(others), strict=True))
    return [recorded.get(id(event)) or Rated(event, created=True, changed=True) for event in ratings]


def _record_others(ratings: Sequence[Feedback]) -> list[Rated | Exception]:
    if len(ratings) > 1:
        try:
            with transaction.atomic():
                return [outcome for chunk in _chunks(ratings) for outcome in _supersede(chunk)]
        except (IntegrityError, DataError):  # because of some of them; foreign keys are checked by the commit alone
            pass
    return [_record_alone(event) for event in ratings]


def _record_alone(event: Feedback) -> Rated | Exception:
    try:
        return _record_chunk([event])[0]
    except (IntegrityError, DataError, RunConflict) as error:
        return error


def _record_chunk(ratings: list[Feedback]) -> list[Rated | Exception]:
    """Anew where somebody was faster, by the constraint feedback_one_current_rating."""
    return look_again(partial(transaction.atomic(_supersede), ratings), CHANGED_BY_OTHERS)


def _supersede(ratings: list[Feedback]) -> list[Rated | Exception]:
    """``ratings`` of different targets."""
    traces = lock_traces({event.trace_id for event in ratings})
    ratable = [event for event in ratings if _is_there(event, traces)]
    last = newest_ratings([target_of(event) for event in ratable]) if ratable else {}
    raters = TokenRaters(ratable)
    decided = {
        target_of(event): raters.refusal(event) or _decide(event, last.get(target_of(event))) for event in ratable
    }
    written = [rated for rated in decided.values() if isinstance(rated, Rated) and rated.changed]
    supersede([last[target_of(rated.event)].pk for rated in written if not rated.created])
    insert_numbered([rated.event for rated in written])
    await_reward({rated.event.trace_id for rated in written if not traces[rated.event.trace_id].reward_pending})
    return [decided.get(target_of(event)) or UnknownTrace(event.trace_id) for event in ratings]


def _is_there(event: Feedback, traces: dict[UUID, RatedTrace]) -> bool:
    """Takes the agent from the trace where the rating leaves it open."""
    trace = traces.get(event.trace_id)
    if trace is None or event.agent_id not in (None, trace.agent_id):
        return False
    event.agent_id = trace.agent_id
    return True


def _decide(event: Feedback, last: Feedback | None) -> Rated:
    if last is None:
        return Rated(event, created=True, changed=True)
    if not last.is_current:  # retracted; what was sent before that and arrives late must not bring it back
        newer = event.rated_at > last.rated_at
        return Rated(event if newer else last, created=newer, changed=newer)
    if event.rated_at < last.rated_at or say_the_same(event, last):
        return Rated(last, created=False, changed=False)
    return Rated(event, created=False, changed=True)


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
    return [rated for chunk in chunks(events, CHUNK) for rated in _append_chunk(chunk)]


def retract(event: Feedback, **common: Any) -> bool:
    """Withdraws an event and keeps both in the history; False when it was not current any more. One that is held back does
    not come back then. ``common`` as for ``rate``."""
    retraction = new_event(event.trace, Feedback.Kind.RETRACTION, retracts=event, is_current=False, **common)
    with transaction.atomic():
        lock_traces([event.trace_id])
        counts = Q(is_current=True) | Q(quarantine__isnull=False, quarantine__released_at=None)
        if not Feedback.objects.filter(counts, pk=event.pk).update(is_current=False, quarantine=None):
            return False
        retraction.save(force_insert=True)
        await_reward([event.trace_id])
    event.is_current = False
    return True


def _append_chunk(events: Sequence[Feedback]) -> list[Rated]:
    trace_ids = {pk for event in events for pk in (event.trace_id, event.other_trace_id) if pk is not None}
    with transaction.atomic():
        traces = lock_traces(trace_ids)  # so that a request and its retry cannot both find that nothing was said yet
        if gone := trace_ids - traces.keys():
            raise UnknownTrace(gone.pop())
        raters = TokenRaters(events)
        for event in events:
            if refusal := raters.refusal(event):
                raise refusal
        # What these raters said about these traces before, by its content; of equal events the one that is current.
        history = Feedback.objects.filter(
            trace__in={event.trace_id for event in events},
            rater__in={event.rater for event in events},
            kind__in={event.kind for event in events},
        )
        earlier = {statement(event): event for event in history.order_by("is_current", "rated_at")}
        recorded = [_decide_event(event, earlier) for event in events]
        new = [rated.event for rated in recorded if rated.changed]
        insert_numbered(new)
        await_reward({event.trace_id for event in new if not traces[event.trace_id].reward_pending})
    return recorded


def _decide_event(event: Feedback, earlier: dict[tuple[Any, ...], Feedback]) -> Rated:
    first = earlier.get(statement(event))
    # What was retracted stays so, until it is said anew: importing the file again is nothing new.
    if first is not None and (first.is_current or event.rated_at <= first.rated_at):
        return Rated(first, created=False, changed=False)
    earlier[statement(event)] = event
    return Rated(event, created=True, changed=True)


_RATINGS: GroupCommit[Feedback, Rated] = GroupCommit(_record_together, most=CHUNK)
