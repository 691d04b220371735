"""What imported records say about their answers becomes feedback events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from django.utils import timezone

from rl.base.errors import UsageError
from rl.collect.feedback import events
from rl.collect.feedback import write as feedback
from rl.collect.feedback.content import say_the_same
from rl.collect.feedback.rating_conflicts import RatingMemory, last_words
from rl.collect.importers.report import ImportCount
from rl.collect.lookups import agents_named
from rl.collect.traces.checks import feedback_problem
from rl.collect.traces.imported import ImportedFeedback, ImportedRemark, ImportedTrace
from rl.collect.traces.rows import Key, stored
from rl.models import Agent, Feedback, Trace

NOT_TAKEN = "its answer was not taken"
NOT_HERE = "its answer is not here; import the answers first"
NO_OTHER = "the other answer of the comparison is not here"
OLDER = "older than the rating that is here"
TAKEN_BACK = "the same rater says something else of the same moment further on"
SAID_BEFORE = "the same rater says something else of the same moment further up"
_Said = tuple[str, Feedback]
"""Where it was said, and what."""


@dataclass(frozen=True, slots=True)
class Judged:
    record: ImportedTrace | ImportedRemark
    trace: Trace | None
    """None: the answer was refused or is not here, and its feedback with it."""


def say(judged: Sequence[Judged], source: str, count: ImportCount, memory: RatingMemory) -> None:
    """Stores the feedback of some hundred answers and counts what became of it; ``memory`` has what this import said before.
    Raises RunConflict."""
    others, now = _others(judged), timezone.now()
    found: dict[bool, list[_Said]] = {True: [], False: []}
    for one in judged:
        for said in one.record.feedback:
            count.read += 1
            try:
                event = _event(one, said, others, source, now)
            except UsageError as refused:
                count.skip(one.record.where, str(refused))
            else:
                found[event.kind == Feedback.Kind.RATING].append((one.record.where, event))
    _store(_uncontradicted(found[True], memory, now, count), feedback.record, count)
    _store(found[False], feedback.append, count)


def about(records: Iterable[object], own: Agent | None) -> list[Judged]:
    """The remarks among the records, with the answers that are here."""
    remarks = [one for one in records if isinstance(one, ImportedRemark)]
    owners = [remark.agent or (own.name if own else "") for remark in remarks]
    agents = agents_named(owners)
    keys: list[list[Key]] = []
    for remark, owner in zip(remarks, owners, strict=True):
        agent = agents.get(owner.lower())
        keys.append([(agent.pk, external_id) for external_id in remark.external_ids] if agent else [])
    here = stored(chain.from_iterable(keys))
    return [
        Judged(remark, next((here[key] for key in own_keys if key in here), None))
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


def _others(judged: Sequence[Judged]) -> dict[Key, Trace]:
    """The right sides of the comparisons, stored now or earlier, by agent and external id."""
    here = {(trace.agent_id, trace.external_id or ""): trace for one in judged if (trace := one.trace)}
    wanted = {
        (one.trace.agent_id, said.other_external_id)
        for one in judged
        for said in one.record.feedback
        if one.trace and said.other_external_id
    }
    return here | stored(wanted - here.keys())


def _event(judged: Judged, said: ImportedFeedback, others: dict[Key, Trace], source: str, now: datetime) -> Feedback:
    """What clocks that run ahead date later than ``now`` is all of this moment."""
    trace = judged.trace
    if trace is None:
        raise UsageError(NOT_TAKEN if isinstance(judged.record, ImportedTrace) else NOT_HERE)
    if reason := feedback_problem(said):
        raise UsageError(reason)
    common: dict[str, Any] = {
        "rater": said.rater,
        "source": source,
        "tags": said.tags,
        "notes": said.notes,
        "rated_at": min(said.rated_at or trace.occurred_at, now),
    }
    if said.kind == "rating":
        return events.rating(trace, scale=said.scale, value=said.value, **common)  # type: ignore[arg-type]
    if said.kind == "correction":
        return events.correction(trace, text=said.text, **common)
    if said.kind == "outcome":
        return events.observation(trace, metric=said.metric, value=said.value, **common)  # type: ignore[arg-type]
    other = others.get((trace.agent_id, said.other_external_id))
    if other is None:
        raise UsageError(NO_OTHER)
    return events.comparison(trace, other, choice=said.choice, **common)


def _store(found: Sequence[_Said], write: Callable[[list[Feedback]], list[feedback.Rated]], count: ImportCount) -> None:
    recorded = write([event for _, event in found])
    for (where, event), rated in zip(found, recorded, strict=True):
        if rated.changed:
            count.imported += rated.created
            count.updated += not rated.created
        elif say_the_same(event, rated.event):
            count.unchanged += 1
        else:
            count.skip(where, OLDER)


def _uncontradicted(ratings: Sequence[_Said], memory: RatingMemory, now: datetime, count: ImportCount) -> list[_Said]:
    last = last_words([event for _, event in ratings])
    agreeing = {id(event) for event in memory.agreeing(last, now)}
    reasons = {id(event): SAID_BEFORE for event in last if id(event) not in agreeing}
    for where, event in ratings:
        if id(event) not in agreeing:
            count.skip(where, reasons.get(id(event), TAKEN_BACK))
    return [(where, event) for where, event in ratings if id(event) in agreeing]
