"""Command Center's simulation entries become traces, and people's ratings of them become feedback.

The files are read to their end before anything is written: one that is damaged leaves the database as it was. Entry ids and
question ids are unique within one simulation run only, so an id that stands for something else in the database is skipped,
never overwritten: import another run into another agent. Ratings follow the rules of all ratings (the latest ``rated_at`` of
a rater wins, what was withdrawn stays withdrawn), so a second run changes nothing.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from django.db import transaction
from django.utils import timezone

from rl.base.errors import UsageError
from rl.base.records import Report, silent
from rl.collect.command_center import (
    Entry,
    EntryRun,
    Rating,
    Rejected,
    entry_details,
    entry_prompt,
    entry_response,
    read_entries,
    read_ratings,
    read_run,
)
from rl.collect.feedback import events, waiting, write
from rl.collect.feedback.imported_feedback import count_recorded
from rl.collect.importers.newcomers import settle_in
from rl.collect.importers.report import KEPT, NOT_READ, ImportCount, ImportReport, Ledger, read_as
from rl.collect.json_stream import open_json
from rl.collect.traces.rows import (
    STORED_BY_OTHERS,
    Key,
    TraceRows,
    chunks,
    find_traces,
    look_again,
    same_words,
    take_turns,
)
from rl.models import Agent, Feedback, Trace, WaitingRating

CHUNK = 500
"""Records per transaction; a longer one would keep people's ratings waiting."""
SOURCE = "command_center"
RATER = "device:command-center"
"""The rater of ratings whose file names no device."""

OTHER_ANSWER = "the entry id belongs to another answer of this agent"
OTHER_QUESTION = "the question id belongs to another question of this agent"
NO_ENTRY = "no entry with this id"
RATED_TWICE = "rated twice in this file"

_READ_AS = {
    "entry_id": "the id of the answer",
    **dict.fromkeys(("question", "question_id"), "the question"),
    **dict.fromkeys(("scenario", "size", "fixture"), "the answer"),
    **dict.fromkeys(("rating", "tags", "notes", "rated_at"), "a thumb"),
}
_NAMED = ("agent_id", "external_id", "occurred_at")
_COMPARED = ("prompt", "prompt_key", "response", "details")
"""Columns; some hundred answers with all of theirs are large."""
Record = TypeVar("Record")


def run(
    agent: Agent,
    data_file: Path | str,
    ratings_file: Path | str | None = None,
    *,
    dry_run: bool = False,
    report: Report = silent,
) -> ImportReport:
    """``agent`` may be new: it is saved once the files have turned out to be readable. One without answers gets the defaults
    of those who come from there.

    A rating inside an entry counts where the ratings file has none for it. Raises BadFile.
    """
    data, ratings = Path(data_file), Path(ratings_file) if ratings_file else None
    report("stage", {"name": f"checking {data.name}"})
    ledger = Ledger()
    total, rated = _read_through(data, ratings, ledger)
    if not dry_run and (changed := settle_in(agent, SOURCE)):
        values = ", ".join(f"{name} {getattr(agent, name)}" for name in changed)
        report("log", {"text": f"{agent.name} has no answers yet and gets {SOURCE}'s defaults: {values}"})
    if agent.pk is None:
        agent.full_clean()
        if not dry_run:
            agent.save()
    job = _Import(agent, read_run(data), _device(ratings) if ratings else "", dry_run)
    job.report.ledger = ledger
    report("stage", {"name": "comparing with the database" if dry_run else "writing"})
    done = 0
    for chunk in chunks(read_entries(data), CHUNK):
        job.take_entries(chunk)
        job.take_ratings([e.rating for e in chunk if isinstance(e, Entry) and e.rating and e.entry_id not in rated])
        done += len(chunk)
        report("step", {"step": done, "total_steps": total})
    for ratings_chunk in chunks(read_ratings(ratings), CHUNK) if ratings else ():
        job.take_ratings(ratings_chunk)
        done += len(ratings_chunk)
        report("step", {"step": done, "total_steps": total})
    return job.report


def _read_through(data: Path, ratings: Path | None, ledger: Ledger) -> tuple[int, frozenset[str]]:
    """How many records there are, and the ids that the ratings file rates. Raises BadFile."""
    entries = 0
    for entry in read_entries(data):
        entries += 1
        if isinstance(entry, Entry):
            kept = entry_details(entry)
            others = {name: KEPT if name in kept else NOT_READ for name in entry.fields}
            ledger.note({name: read_as(_READ_AS[name]) if name in _READ_AS else fate for name, fate in others.items()})
    if ratings is None:
        return entries, frozenset()
    rated_ids = [rating.entry_id if isinstance(rating, Rating) else None for rating in read_ratings(ratings)]
    return entries + len(rated_ids), frozenset(entry_id for entry_id in rated_ids if entry_id is not None)


def _device(ratings: Path) -> str:
    """The ``device_id`` that a bulk export of ratings carries; empty where there is none."""
    device = ""
    with open_json(ratings) as reader:
        if reader.peek() == "[":
            return device  # each rating says it
        for key in reader.members():
            if key == "ratings" and reader.peek() == "{":
                for _ in reader.members():
                    reader.value()
            elif isinstance(value := reader.value(), str) and key == "device_id":
                device = value
    return device


class _Import:
    def __init__(self, agent: Agent, about: EntryRun, device: str, dry_run: bool) -> None:
        self.report = ImportReport()
        self._agent, self._about, self._dry_run = agent, about, dry_run
        self._rater = f"device:{device}" if device else RATER
        self._occurred_at = _time(about.created_at)
        self._delivers = not dry_run and WaitingRating.objects.exists()
        self._questions: dict[str, str] = {}
        """Question id to question, in the database or earlier in the file."""
        self._refused: dict[str, str] = {}
        """Id of an entry that was not taken, to the reason."""
        self._would_be_new: set[str] = set()
        self._rated: set[tuple[str, str | None]] = set()

    def take_entries(self, records: Sequence[Entry | Rejected]) -> None:
        entries = _whole(records, self.report.traces)
        for entry, how in zip(entries, look_again(partial(self._write, entries), STORED_BY_OTHERS), strict=True):
            self.report.traces.note(f"entry {entry.entry_id}", how)
            if how in (OTHER_ANSWER, OTHER_QUESTION):
                self._refused[entry.entry_id] = how
            elif how == "imported" and self._dry_run:
                self._would_be_new.add(entry.entry_id)
        if self._delivers:
            taken = [entry for entry in entries if entry.entry_id not in self._refused]
            waiting.deliver(find_traces(self._keys(taken), Trace.objects.only(*_NAMED)).values(), SOURCE)

    def _write(self, entries: Sequence[Entry]) -> list[str]:
        with transaction.atomic():
            take_turns([self._agent.pk])
            rows = TraceRows(self._keys(entries), Trace.objects.only(*_NAMED, *_COMPARED))
            unknown = {entry.question_id for entry in entries} - self._questions.keys()
            known_prompts = Trace.objects.filter(agent_id=self._agent.pk, prompt_key__in=unknown).order_by()
            for key, prompt in known_prompts.values_list("prompt_key", "prompt").distinct():
                self._questions[key] = prompt[-1]["content"] if prompt else ""
            for entry in entries:
                self._questions.setdefault(entry.question_id, entry.question)
            decided = [self._decide(entry, rows) for entry in entries]
            if not self._dry_run:
                rows.save()
        return decided

    def _keys(self, records: Sequence[Entry | Rating]) -> list[Key]:
        return [(self._agent.pk, record.entry_id) for record in records]

    def _decide(self, entry: Entry, rows: TraceRows) -> str:
        """``imported``, ``updated``, ``unchanged``; else the reason why it is refused."""
        here = rows.get(self._agent.pk, entry.entry_id)
        if here and not same_words(here, entry_prompt(entry), entry_response(entry), entry.question_id):
            return OTHER_ANSWER
        if self._questions[entry.question_id] != entry.question:
            return OTHER_QUESTION
        if here is None:
            rows.add(
                Trace(
                    agent=self._agent,
                    external_id=entry.entry_id,
                    source=SOURCE,
                    prompt=list(entry_prompt(entry)),
                    prompt_key=entry.question_id,
                    response=entry_response(entry),
                    details=self._details(entry),
                    occurred_at=self._occurred_at,
                )
            )
            return "imported"
        return "updated" if rows.change(here, {"details": self._details(entry)}) else "unchanged"

    def _details(self, entry: Entry) -> dict[str, Any]:
        return {**entry_details(entry), "run_id": self._about.run_id}

    def take_ratings(self, records: Sequence[Rating | Rejected]) -> None:
        ratings = _whole(records, self.report.feedback)
        keys = self._keys(ratings)
        here = find_traces(keys, Trace.objects.only(*_NAMED))
        feedback = [
            event for rating, key in zip(ratings, keys, strict=True) if (event := self._event(rating, here.get(key)))
        ]
        with transaction.atomic() if self._dry_run else nullcontext():
            located = [(f"entry {event.trace.external_id}", event) for event in feedback]
            count_recorded(located, write.record(feedback), self.report.feedback)
            if self._dry_run:  # what record would do, without it staying done
                transaction.set_rollback(True)

    def _event(self, rating: Rating, trace: Trace | None) -> Feedback | None:
        """The feedback to record, if it can be."""
        count, whose = self.report.feedback, (rating.entry_id, rating.device)
        problem = self._refused.get(rating.entry_id) or (RATED_TWICE if whose in self._rated else "")
        self._rated.add(whose)
        if not problem and trace is not None:
            try:
                return events.rating(
                    trace,
                    scale=Feedback.Scale.THUMB,
                    value=int(rating.up),
                    rater=self._rater if rating.device is None else f"device:{rating.device}",
                    source=SOURCE,
                    tags=rating.tags,
                    notes=rating.notes,
                    rated_at=rating.rated_at or trace.occurred_at,
                )
            except UsageError as error:
                problem = str(error)
        elif not problem and rating.entry_id in self._would_be_new:
            count.imported += 1
            return None
        count.skip(f"entry {rating.entry_id}", problem or NO_ENTRY)
        return None


def _whole(records: Sequence[Record | Rejected], count: ImportCount) -> list[Record]:
    """The records that are not damaged."""
    count.read += len(records)
    whole: list[Record] = []
    for record in records:
        if isinstance(record, Rejected):
            count.skip(record.where, record.reason)
        else:
            whole.append(record)
    return whole


def _time(text: str) -> datetime:
    """When the simulation ran; now, where the file does not say."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return timezone.now()
