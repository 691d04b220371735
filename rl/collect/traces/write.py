"""Stores what importers, OpenTelemetry and the decisions API bring: answers, and what was said about them.

An answer is known by its agent and its external id. The same one again changes nothing. New facts about it (tool calls,
figures, details) are added, and what the newcomer does not mention stays. Other words under the same id are refused, because
people may have judged the first ones. Transactions are short: whatever was taken stays when a long import stops."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial

from django.db import IntegrityError, transaction

from rl.base.errors import UsageError
from rl.base.slugs import check_slug
from rl.collect.feedback.imported_feedback import RatingMemory, count_again, digest_of, match_remarks, store_feedback
from rl.collect.importers.report import ImportReport
from rl.collect.traces.imported import ImportedRemark, ImportedTrace, Rejected, problem
from rl.collect.traces.rows import (
    OTHER_ANSWER,
    STORED_BY_OTHERS,
    Taken,
    TraceBatch,
    agents_named,
    chunks,
    look_again,
    take_turns,
)
from rl.models import Agent, Trace, prompt_key

CHUNK = 500
"""Answers per transaction; a longer one would keep people's ratings waiting."""
MOST_NEW_AGENTS = 200
"""Made by one import. A file that names more has something else where the agent should be."""
NO_AGENT = "names no agent; say whose answers these are"
TOO_MANY_AGENTS = f"one import makes at most {MOST_NEW_AGENTS} agents"

Record = ImportedTrace | ImportedRemark | Rejected


class TraceStore:
    """Takes records as they come and counts in ``report`` what became of them.

    ``agent`` owns the records that name none; a new one is saved with its first answer, and so are agents that only records
    name. A dry run does the same work and takes every transaction back."""

    def __init__(self, source: str, *, agent: Agent | None = None, dry_run: bool = False) -> None:
        self.report = ImportReport()
        self._source, self._agent, self._dry_run = source, agent, dry_run
        self._made_names: set[str] = set()

    def take(self, records: Sequence[Record]) -> list[Trace | None]:
        """The trace of each record, None where there is none. Raises RunConflict when others keep storing the same."""
        take = self._rehearse if self._dry_run else self._take
        outcomes = (outcome for chunk in chunks(records, CHUNK) for outcome in take(chunk))
        return [outcome.trace if outcome else None for outcome in outcomes]

    def _take(self, records: Sequence[Record]) -> list[Taken | None]:
        checked = [(record, _refusal(record)) for record in records]
        answers = [record for record, reason in checked if isinstance(record, ImportedTrace) and not reason]
        written = iter(look_again(partial(self._write, answers), STORED_BY_OTHERS) if answers else ())
        remarks = iter(match_remarks(records, self._agent))
        outcomes = [self._next_outcome(record, reason, written, remarks) for record, reason in checked]
        judged = [outcome for outcome in outcomes if outcome]
        store_feedback(judged, self._source, self.report.feedback, self._ratings)
        return outcomes

    @cached_property
    def _ratings(self) -> RatingMemory:
        return RatingMemory()

    def _next_outcome(
        self, record: Record, reason: str, written: Iterator[Taken], remarks: Iterator[Taken]
    ) -> Taken | None:
        if isinstance(record, ImportedRemark):
            return next(remarks)
        outcome = None if reason else next(written)
        self._count(record.where, outcome.how if outcome else reason)
        return outcome

    def _count(self, where: str, how: str) -> None:
        self.report.traces.read += 1
        self.report.traces.note(where, how)

    def _rehearse(self, records: Sequence[Record]) -> list[Taken | None]:
        with transaction.atomic():
            fresh = [
                record for record in records if not (isinstance(record, ImportedTrace) and self._seen_before(record))
            ]
            self._stand_ins([record for record in fresh if not isinstance(record, Rejected)])
            outcomes = self._take(fresh)
            transaction.set_rollback(True)
        for outcome in outcomes:
            if outcome and isinstance(outcome.record, ImportedTrace) and outcome.how in ("imported", "updated"):
                self._rehearsal.remember(self._owner(outcome.record), outcome.record)
        by_record = {id(outcome.record): outcome for outcome in outcomes if outcome}
        return [by_record.get(id(record)) for record in records]

    def _seen_before(self, record: ImportedTrace) -> bool:
        """Counts a record whose answer an earlier chunk would have stored."""
        verdict = self._rehearsal.verdict(self._owner(record), record)
        if verdict:
            self._count(record.where, OTHER_ANSWER if verdict == "other" else verdict)
            count_again(record, verdict, self.report.feedback)
        return bool(verdict)

    def _stand_ins(self, records: Sequence[ImportedTrace | ImportedRemark]) -> None:
        """For this transaction only: the answers that these records mention and an earlier chunk would have stored."""
        seen = {
            (record.agent, external_id): key
            for record in records
            for external_id, key in _mentioned_answers(record)
            if (self._rehearsal.look_up(self._owner(record), external_id) is not None)
        }
        agents = self._agents({name for name, _ in seen})
        traces = [
            Trace(agent=agent, external_id=external_id, prompt=[], prompt_key=key)
            for (name, external_id), key in seen.items()
            if isinstance(agent := agents[name], Agent)
        ]
        Trace.objects.bulk_create(traces, ignore_conflicts=True)

    @cached_property
    def _rehearsal(self) -> Rehearsal:
        return Rehearsal()

    def _owner(self, record: ImportedTrace | ImportedRemark) -> str:
        return (record.agent or (self._agent.name if self._agent else "")).lower()

    def _agents(self, names: Collection[str]) -> dict[str, Agent | str]:
        """By the name in the records: the agent, or the reason why there is none."""
        here = agents_named(names)
        return {name: here.get(name.lower()) or self._make_agent(name) for name in sorted(names)}

    def _make_agent(self, name: str) -> Agent | str:
        if not name or (self._agent and self._agent.name.lower() == name.lower()):
            return self._own() or NO_AGENT
        try:
            check_slug(name, "agent name")
        except UsageError as error:
            return str(error)
        if name.lower() not in self._made_names and len(self._made_names) >= MOST_NEW_AGENTS:
            return TOO_MANY_AGENTS
        self._made_names.add(name.lower())
        return _save_agent(Agent.new(name))

    def _own(self) -> Agent | None:
        if self._agent is None or self._agent.pk is not None:
            return self._agent
        saved = _save_agent(copy(self._agent))
        if not self._dry_run:  # else its row is about to be taken back
            self._agent = saved
        return saved

    def _write(self, records: Sequence[ImportedTrace]) -> list[Taken]:
        agents = self._agents({record.agent for record in records})
        owned = [(record, agent) for record in records if isinstance(agent := agents[record.agent], Agent)]
        taken = []
        with transaction.atomic():
            take_turns({agent.pk for _, agent in owned})
            batch = TraceBatch(owned, self._source)
            for record in records:
                agent = agents[record.agent]
                taken.append(Taken(record, None, agent) if isinstance(agent, str) else batch.decide(record, agent))
            batch.save()
        return taken


def _refusal(record: Record) -> str:
    """Why it cannot be stored; empty when it can."""
    if isinstance(record, Rejected):
        return record.reason
    return problem(record) if isinstance(record, ImportedTrace) else ""


def _mentioned_answers(record: ImportedTrace | ImportedRemark) -> Iterator[tuple[str, str]]:
    """Other answers, and the key of their prompt as far as it matters."""
    if isinstance(record, ImportedRemark):
        yield from ((external_id, "") for external_id in record.external_ids)
        return
    key = record.prompt_key or prompt_key(record.prompt)
    yield from ((feedback.other_external_id, key) for feedback in record.feedback if feedback.other_external_id)


def _save_agent(agent: Agent) -> Agent:
    """The agent of this name, which somebody else may have made at this moment."""
    agent.full_clean(validate_unique=False, validate_constraints=False)
    try:
        with transaction.atomic():
            agent.save()
        return agent
    except IntegrityError:
        return Agent.by_name(agent.name)


class Rehearsal:
    """Knows what a dry run has seen: the database forgets each chunk at once, and a file may name an answer again later.

    Kept in a temporary file as hashes, so that a dry run of a million answers takes no more memory than one of a thousand.
    """

    def __init__(self) -> None:
        # An empty name is a file of its own that SQLite removes when the connection goes.
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._file.execute("CREATE TABLE seen (id BLOB PRIMARY KEY, words BLOB, whole BLOB) WITHOUT ROWID")

    def remember(self, agent: str, record: ImportedTrace) -> None:
        row = (digest_of(agent, record.external_id), _words(record), _whole(record))
        self._file.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", row)

    def verdict(self, agent: str, record: ImportedTrace) -> str:
        """``unchanged``, ``updated``, or ``other`` for other words; empty for an answer that was not seen yet."""
        seen = self.look_up(agent, record.external_id)
        if seen is None:
            return ""
        words, whole = seen
        if words != _words(record):
            return "other"
        return "unchanged" if whole == _whole(record) else "updated"

    def look_up(self, agent: str, external_id: str) -> tuple[bytes, bytes] | None:
        cursor = self._file.execute("SELECT words, whole FROM seen WHERE id = ?", [digest_of(agent, external_id)])
        return cursor.fetchone()


def _words(record: ImportedTrace) -> bytes:
    return digest_of(record.prompt, record.prompt_key, record.response)


def _whole(record: ImportedTrace) -> bytes:
    return digest_of(replace(record, where=""))
