"""Command Center's simulation entries become traces, and people's ratings of them become feedback.

The files are read to their end before anything is written: one that is damaged leaves the database as it was. Entry ids and
question ids are unique within one simulation run only, so an id that stands for something else in the database is skipped,
never overwritten: import another run into another agent. Ratings follow the rules of all ratings (the latest ``rated_at`` of
a rater wins, what was withdrawn stays withdrawn), so a second run changes nothing."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from django.db import transaction

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
from rl.collect.feedback import waiting
from rl.collect.importers.fields import Refused, moment
from rl.collect.importers.newcomers import settle_in
from rl.collect.importers.report import KEPT, NOT_READ, ImportReport, Ledger, read_as
from rl.collect.json_stream import open_json
from rl.collect.traces.imported import ImportedFeedback, ImportedRemark, ImportedTrace
from rl.collect.traces.rows import OTHER_ANSWER, chunks, take_turns
from rl.collect.traces.write import CHUNK, TraceStore
from rl.models import Agent, Trace, WaitingRating

SOURCE = "command_center"
RATER = "device:command-center"
"""The rater of ratings whose file names no device."""

OTHER_QUESTION = "the question id belongs to another question of this agent"
NO_ENTRY = "no entry with this id"
RATED_TWICE = "rated twice in this file"

_READ_AS = {
    "entry_id": "the id of the answer",
    **dict.fromkeys(("question", "question_id"), "the question"),
    **dict.fromkeys(("scenario", "size", "fixture"), "the answer"),
    **dict.fromkeys(("rating", "tags", "notes", "rated_at"), "a thumb"),
}


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

    A rating inside an entry counts where the ratings file has none for it. Raises BadFile."""
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
        self._agent, self._about = agent, about
        self._store = TraceStore(SOURCE, agent=agent, dry_run=dry_run)
        self.report = self._store.report
        self._rater = f"device:{device}" if device else RATER
        self._occurred_at = _time(about.created_at)
        self._delivers = not dry_run and WaitingRating.objects.exists()
        self._questions: dict[str, str] = {}
        """Question id to question, in the database or earlier in the file."""
        self._refused: dict[str, str] = {}
        """Id of an entry that was not taken, to the reason."""
        self._rated: set[tuple[str, str | None]] = set()

    def take_entries(self, records: Sequence[Entry | Rejected]) -> None:
        with transaction.atomic():
            take_turns([self._agent.pk])
            self._learn_questions([record for record in records if isinstance(record, Entry)])
            traces = self._store.take([self._answer(record) for record in records])
        for record, trace in zip(records, traces, strict=True):
            if isinstance(record, Entry) and trace is None:
                self._refused.setdefault(record.entry_id, OTHER_ANSWER)
        if self._delivers:
            waiting.deliver(filter(None, traces), SOURCE)

    def _learn_questions(self, entries: Sequence[Entry]) -> None:
        unknown = {entry.question_id for entry in entries} - self._questions.keys()
        prompts = Trace.objects.filter(agent_id=self._agent.pk, prompt_key__in=unknown).order_by()
        for key, prompt in prompts.values_list("prompt_key", "prompt").distinct():
            self._questions[key] = prompt[-1]["content"] if prompt else ""
        for entry in entries:
            self._questions.setdefault(entry.question_id, entry.question)

    def _answer(self, entry: Entry | Rejected) -> ImportedTrace | Rejected:
        if isinstance(entry, Rejected):
            return entry
        where = f"entry {entry.entry_id}"
        if self._questions[entry.question_id] != entry.question:
            self._refused[entry.entry_id] = OTHER_QUESTION
            return Rejected(where, OTHER_QUESTION)
        return ImportedTrace(
            where=where,
            external_id=entry.entry_id,
            prompt=entry_prompt(entry),
            prompt_key=entry.question_id,
            response=entry_response(entry),
            details={**entry_details(entry), "run_id": self._about.run_id},
            has_all_details=True,
            occurred_at=self._occurred_at,
        )

    def take_ratings(self, records: Sequence[Rating | Rejected]) -> None:
        remarks = []
        for record in records:
            if isinstance(record, Rejected):
                self._skip(record.where, record.reason)
            elif problem := self._problem(record):
                self._skip(f"entry {record.entry_id}", problem)
            else:
                remarks.append(self._remark(record))
        self._store.take(remarks)

    def _problem(self, rating: Rating) -> str:
        whose = (rating.entry_id, rating.device)
        twice = RATED_TWICE if whose in self._rated else ""
        self._rated.add(whose)
        return self._refused.get(rating.entry_id) or twice

    def _skip(self, where: str, problem: str) -> None:
        self.report.feedback.read += 1
        self.report.feedback.skip(where, problem)

    def _remark(self, rating: Rating) -> ImportedRemark:
        opinion = ImportedFeedback(
            kind="rating",
            scale="thumb",
            value=float(rating.up),
            rater=self._rater if rating.device is None else f"device:{rating.device}",
            tags=rating.tags,
            notes=rating.notes,
            rated_at=rating.rated_at,
        )
        ids = (rating.entry_id,)
        return ImportedRemark(where=f"entry {ids[0]}", external_ids=ids, feedback=(opinion,), not_here=NO_ENTRY)


def _time(text: str) -> datetime | None:
    """When the simulation ran; None where the file does not say."""
    with suppress(Refused):
        return moment({"created_at": text}, "created_at")
    return None
