"""What imported records say about their answers becomes feedback events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import chain
from typing import Any

from django.utils import timezone

from rl.base.errors import UsageError
from rl.collect.feedback import events, write
from rl.collect.feedback.events import content, say_the_same
from rl.collect.importers.report import ImportCount
from rl.collect.traces.imported import ImportedFeedback, ImportedRemark, ImportedTrace, feedback_problem
from rl.collect.traces.rows import Key, Taken, agents_named, find_traces
from rl.models import Agent, Feedback, Trace

NOT_TAKEN = "its answer was not taken"
NO_OTHER = "the other answer of the comparison is not here"
OLDER = "older than the rating that is here"
TAKEN_BACK = "the same rater says something else of the same moment further on"
SAID_BEFORE = "the same rater says something else of the same moment further up"
_Located = tuple[str, Feedback]
"""Where in the file, and the event."""


def store_feedback(judged: Sequence[Taken], source: str, count: ImportCount, memory: RatingMemory) -> None:
    """Stores the feedback of some hundred answers and counts what became of it; ``memory`` has what this import said before.
    Raises RunConflict."""
    # The right sides of the comparisons, stored now or earlier, by agent and external id.
    here = {(trace.agent_id, trace.external_id or ""): trace for answer in judged if (trace := answer.trace)}
    wanted = {
        (answer.trace.agent_id, feedback.other_external_id)
        for answer in judged
        for feedback in answer.record.feedback
        if answer.trace and feedback.other_external_id
    }
    others, now = here | find_traces(wanted - here.keys()), timezone.now()
    checked: dict[bool, list[_Located]] = {True: [], False: []}
    for answer in judged:
        for feedback in answer.record.feedback:
            count.read += 1
            try:
                event = _checked_event(answer, feedback, others, source, now)
            except UsageError as refused:
                count.skip(answer.record.where, str(refused))
            else:
                checked[event.kind == Feedback.Kind.RATING].append((answer.record.where, event))
    ratings = checked[True]
    last = agreeing_with_last([event for _, event in ratings])
    agreeing = {id(event) for event in memory.agreeing(last, now)}
    reasons = {id(event): SAID_BEFORE for event in last if id(event) not in agreeing}
    for where, event in ratings:
        if id(event) not in agreeing:
            count.skip(where, reasons.get(id(event), TAKEN_BACK))
    ratings = [(where, event) for where, event in ratings if id(event) in agreeing]
    count_recorded(ratings, write.record([event for _, event in ratings]), count)
    count_recorded(checked[False], write.append([event for _, event in checked[False]]), count)


def match_remarks(records: Iterable[object], own: Agent | None) -> list[Taken]:
    """The remarks among the records, with the answers that are here."""
    remarks = [record for record in records if isinstance(record, ImportedRemark)]
    owners = [remark.agent or (own.name if own else "") for remark in remarks]
    agents = agents_named(owners)
    keys: list[list[Key]] = []
    for remark, owner in zip(remarks, owners, strict=True):
        agent = agents.get(owner.lower())
        keys.append([(agent.pk, external_id) for external_id in remark.external_ids] if agent else [])
    here = find_traces(chain.from_iterable(keys))
    return [
        Taken(remark, next((here[key] for key in own_keys if key in here), None), "")
        for remark, own_keys in zip(remarks, keys, strict=True)
    ]


def count_again(record: ImportedTrace, verdict: str, count: ImportCount) -> None:
    """The feedback of an answer that a dry run has seen: of the same record it is known, beside new facts it is new."""
    count.read += len(record.feedback)
    for _ in record.feedback:
        if verdict == "other":
            count.skip(record.where, NOT_TAKEN)
        else:
            count.unchanged += verdict == "unchanged"
            count.imported += verdict == "updated"


def _checked_event(
    judged: Taken, feedback: ImportedFeedback, others: dict[Key, Trace], source: str, now: datetime
) -> Feedback:
    """What clocks that run ahead date later than ``now`` is all of this moment."""
    trace = judged.trace
    if trace is None:
        raise UsageError(NOT_TAKEN if isinstance(judged.record, ImportedTrace) else judged.record.not_here)
    if reason := feedback_problem(feedback):
        raise UsageError(reason)
    other = others.get((trace.agent_id, feedback.other_external_id))
    return event_of(feedback, trace, other, source=source, rated_at=min(feedback.rated_at or trace.occurred_at, now))


def event_of(feedback: ImportedFeedback, trace: Trace, other: Trace | None = None, **common: Any) -> Feedback:
    """``other``: the right trace of a comparison. Raises UsageError."""
    common |= {"rater": feedback.rater, "tags": feedback.tags, "notes": feedback.notes}
    if feedback.kind == "rating":
        return events.rating(trace, scale=feedback.scale, value=feedback.value, **common)  # type: ignore[arg-type]
    if feedback.kind == "correction":
        return events.correction(trace, text=feedback.text, **common)
    if feedback.kind == "outcome":
        return events.observation(trace, metric=feedback.metric, value=feedback.value, **common)  # type: ignore[arg-type]
    if other is None:
        raise UsageError(NO_OTHER)
    return events.comparison(trace, other, choice=feedback.choice, **common)


def count_recorded(located: Sequence[_Located], recorded: Sequence[write.Rated], count: ImportCount) -> None:
    """What became of each event; ``located``: with where it stands in the file."""
    for (where, event), rated in zip(located, recorded, strict=True):
        if rated.changed:
            count.imported += rated.created
            count.updated += not rated.created
        elif say_the_same(event, rated.event):
            count.unchanged += 1
        else:
            count.skip(where, OLDER)


def agreeing_with_last(ratings: Sequence[Feedback]) -> list[Feedback]:
    """Those that say what the last one of their rater, trace and moment says: written one after the other, each would
    supersede the one before, anew with every import."""
    moments = [(event.trace_id, event.rater, event.rated_at) for event in ratings]
    last = dict(zip(moments, ratings, strict=True))
    if len(last) == len(ratings):
        return [*ratings]
    return [event for moment, event in zip(moments, ratings, strict=True) if say_the_same(event, last[moment])]


class RatingMemory:
    """The ratings of a long import, whose parts are written before its end is known: of two parts the earlier one counts.

    Kept in a temporary file as hashes, so that an import of a million ratings takes no more memory than one of a thousand.
    """

    def __init__(self) -> None:
        # An empty name is a file of its own that SQLite removes when the connection goes.
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._file.execute("CREATE TABLE rating (moment BLOB PRIMARY KEY, content BLOB) WITHOUT ROWID")

    def agreeing(self, ratings: Sequence[Feedback], now: datetime) -> list[Feedback]:
        """Those that contradict no earlier part. Whatever is said to be of the future is of the moment ``now``."""
        moments = [event.rated_at.isoformat() if event.rated_at < now else None for event in ratings]
        rows = [
            (digest_of(event.trace_id.int, event.rater, moment), digest_of(*content(event)))
            for event, moment in zip(ratings, moments, strict=True)
        ]
        self._file.execute("BEGIN")
        new = self._file.executemany("INSERT OR IGNORE INTO rating VALUES (?, ?)", rows).rowcount
        self._file.execute("COMMIT")
        if new == len(rows):
            return [*ratings]
        return [event for event, row in zip(ratings, rows, strict=True) if self._content_at(row[0]) == row[1]]

    def _content_at(self, moment: bytes) -> bytes:
        stored: bytes = self._file.execute("SELECT content FROM rating WHERE moment = ?", [moment]).fetchone()[0]
        return stored


def digest_of(*parts: object) -> bytes:
    """Sixteen bytes."""
    return blake2b(repr(parts).encode(errors="backslashreplace"), digest_size=16).digest()
