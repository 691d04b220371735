"""The rows that are a person's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar
from uuid import UUID

from django.db.models import Q, QuerySet

from rl.collect.feedback.rating_rows import await_reward
from rl.forgetting.person import Person
from rl.models import AnswerPair, Assignment, Claim, Feedback, Invite, PendingSpan, Quarantine, Trace, WaitingRating

Id = TypeVar("Id", int, UUID)
AT_ONCE = 400
"""Ids in a statement: well under the databases' limits of parameters."""


@dataclass(frozen=True, slots=True)
class Left:
    """What they left, as it was read in one transaction."""

    feedback: frozenset[int]
    traces: frozenset[UUID]
    rated: frozenset[UUID]
    """Answers to others that they rated: these stay, and their reward is computed anew."""

    def agent_ids(self) -> set[int]:
        events = [Feedback.objects.filter(pk__in=part) for part in parts(self.feedback)]
        answers = [Trace.objects.filter(pk__in=part) for part in parts(self.traces)]
        return {pk for rows in (*events, *answers) for pk in rows.order_by().values_list("agent", flat=True)}


def parts(ids: Iterable[Id]) -> Iterator[list[Id]]:
    left = iter(ids)
    while part := list(islice(left, AT_ONCE)):
        yield part


def find_left(person: Person) -> Left:
    feedback = list(feedback_of(person).values_list("pk", "trace_id"))
    traces = frozenset(_traces_of(person))
    rated = frozenset(trace_id for _, trace_id in feedback) - traces
    return Left(frozenset(pk for pk, _ in feedback), traces, rated)


def feedback_of(person: Person) -> QuerySet[Feedback]:
    theirs = Q(rater__in=person.names) | Q(user__in=person.user_ids)
    return Feedback.objects.filter(theirs, person.of_agent()).order_by()


def _traces_of(person: Person) -> Iterator[UUID]:
    """Answers to their questions, and second answers to the same questions."""
    by_name = Q(unit__in=person.names) | Q(session_id__in=person.names)
    for user_id in person.user_ids:
        by_name |= Q(session_id__startswith=f"try-{user_id}-")
    asked = Trace.objects.filter(by_name, person.of_agent()).order_by()
    yield from asked.values_list("pk", flat=True)
    of_theirs = Q(drawn_for__in=person.names) | Q(left__in=asked.values("pk")) | Q(right__in=asked.values("pk"))
    for pair in AnswerPair.objects.filter(of_theirs, person.of_agent()).order_by().values_list("left", "right"):
        yield from pair


def delete_rows(person: Person, left: Left) -> dict[str, int]:
    """In the caller's transaction. How many of which kind are gone, with what hung on them: ratings that others gave to
    their answers among it."""
    gone: Counter[str] = Counter()
    for rows in _rows_of(person):
        gone.update(rows.delete()[1])
    for part in parts(left.feedback):
        gone.update(Feedback.objects.filter(pk__in=part).delete()[1])
    for answers in parts(left.traces):
        theirs = Trace.objects.filter(pk__in=answers)
        spans = theirs.filter(otel_trace_id__isnull=False).values("otel_trace_id")
        gone.update(PendingSpan.objects.filter(person.of_agent(), otel_trace_id__in=spans).delete()[1])
        gone.update(theirs.delete()[1])
    for answers in parts(left.rated):
        await_reward(answers)
    return {name.removeprefix("rl."): count for name, count in sorted(gone.items()) if count}


def has_rows(person: Person) -> bool:
    return any(rows.exists() for rows in _rows_of(person))


def _rows_of(person: Person) -> Iterator[QuerySet]:
    yield Claim.objects.filter(person.of_agent("queue__agent"), rater__in=person.names)
    yield Quarantine.objects.filter(person.of_agent(), rater__in=person.names)
    yield WaitingRating.objects.filter(person.of_agent(), rater__in=person.names)
    yield AnswerPair.objects.filter(person.of_agent(), drawn_for__in=person.names)
    yield Assignment.objects.filter(person.of_agent("experiment__agent"), unit__in=person.names)
    yield Invite.objects.filter(person.of_agent("queue__agent"), pk__in=person.invites)
