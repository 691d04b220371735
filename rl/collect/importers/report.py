"""What became of each record, and of each column of a file."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile
from rl.base.messages import asks_nothing
from rl.base.slugs import printable
from rl.collect.traces.imported import ImportedRemark, ImportedTrace, Rejected

EXAMPLES = 5
"""Locations kept for each reason."""
REASONS = 50
"""Different reasons kept; a reason may quote the file, and a file may be wrong in endless ways."""
OTHER = "other reasons"
KEPT, NOT_READ, REPEATED = "kept in the details", "not read", "said by other columns too"
OPINION, TEXT = "looks like an opinion, not read as one", "looks like text of the chat, not read"
NO_WORDS = "holds no words"
SEEN_OR_HEARD = "holds pictures or sounds, which no row shows"
_WAYS_OUT = {
    OPINION: "make it a label of true and false, or rename it if it rates nothing",
    TEXT: "rename it",
    NO_WORDS: "rename it",
    SEEN_OR_HEARD: "leave these records out",
}
UNREAD = tuple(_WAYS_OUT)
"""What a file must not be full of."""
_OPINION_NAMES = """label labels ktotag thumb thumbs thumbsup rating ratings userrating feedback userfeedback like liked
    desirable preferred preference winner helpfulness overallpreference betterresponseid"""
_TEXT_NAMES = """prompt instruction question query input context system systemprompt history messages conversations chosen
    rejected completion response output answer"""
_MEDIA_NAMES = "image images imageurl video videos audio audios pixelvalues"
_OPINIONS, _TEXTS, _MEDIA = (frozenset(names.split()) for names in (_OPINION_NAMES, _TEXT_NAMES, _MEDIA_NAMES))
"""Names in small letters, without signs."""
_MEDIA_PART = re.compile("image|audio|video")
"""In the types of parts."""
_MOST = 200
"""Columns that are told apart."""
MOST_JUDGED, RIVALS = 5, 16
"""Judged answers that are kept, of which the first may say nothing; answers before one that may be compared with it."""
Record = ImportedTrace | ImportedRemark


@dataclass(slots=True)
class Ledger:
    """The account of a file's columns: read as what, kept in the details, or not read."""

    records: int = 0
    columns: dict[str, Counter[str]] = field(default_factory=dict)
    """By column: in how many records it became what."""

    def add(self, record: Record | Rejected) -> None:
        if not isinstance(record, Rejected) and record.columns:
            self.note(record.columns)

    def note(self, columns: Mapping[str, str]) -> None:
        self.records += 1
        for name, fate in columns.items():
            name = _printable_name(name)
            known = name in self.columns or len(self.columns) < _MOST
            self.columns.setdefault(name if known else "other columns", Counter())[fate] += 1

    def include(self, other: Ledger) -> None:
        self.records += other.records
        for name, fates in other.columns.items():
            self.columns.setdefault(name, Counter()).update(fates)

    def refuse_unread(self, path: Path) -> None:
        """Raises BadFile for a column of a known kind that is not read in most records."""
        for name, fates in self.columns.items():
            for fate in UNREAD:
                if fates[fate] * 2 > self.records:
                    count = f"in {fates[fate]:,} of {self.records:,} records"
                    raise BadFile(
                        path,
                        f"the column {name!r} {fate} {count}; {_WAYS_OUT[fate]}, or say --allow-unread to import without it",
                    )

    def as_list(self) -> list[dict[str, Any]]:
        return [{"column": name, "became": dict(fates.most_common())} for name, fates in self.columns.items()]


@dataclass(slots=True)
class ImportSample:
    """The first answers on which somebody has an opinion, so that people see what they become."""

    judged: list[list[ImportedTrace]] = field(default_factory=list)
    """Each an answer with an opinion, behind those that it is compared with."""
    first: list[ImportedTrace] = field(default_factory=list)
    """The first answer, alone."""
    _before: deque[ImportedTrace] = field(default_factory=lambda: deque(maxlen=RIVALS))

    def saw(self, record: Record | Rejected) -> None:
        if not isinstance(record, ImportedTrace) or len(self.judged) == MOST_JUDGED:
            return
        opinions = [feedback for feedback in record.feedback if feedback.kind != "outcome"]
        if opinions:
            rivals = {feedback.other_external_id for feedback in opinions}
            self.judged.append([*(answer for answer in self._before if answer.external_id in rivals), record])
        self.first = self.first or [record]
        self._before.append(record)


@dataclass(slots=True)
class ImportCount:
    """What became of the records of one sort."""

    read: int = 0
    imported: int = 0
    updated: int = 0
    unchanged: int = 0
    """Here already."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Reason to how often."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Reason to the first locations, named as a person finds them: ``entry e00001``."""

    def note(self, where: str, how: str) -> None:
        """``how``: imported, updated, unchanged, or the reason why it was skipped."""
        if how in ("imported", "updated", "unchanged"):
            setattr(self, how, getattr(self, how) + 1)
        else:
            self.skip(where, how)

    def skip(self, where: str, reason: str) -> None:
        if reason not in self.skipped and len(self.skipped) >= REASONS:
            reason = OTHER
        self.skipped[reason] += 1
        locations = self.examples.setdefault(reason, [])
        if len(locations) < EXAMPLES:
            locations.append(where)

    def as_dict(self) -> dict[str, Any]:
        skipped = [
            {"reason": reason, "count": count, "examples": self.examples[reason]}
            for reason, count in self.skipped.most_common()
        ]
        names = ("read", "imported", "updated", "unchanged")
        return {**{name: getattr(self, name) for name in names}, "skipped": skipped}


@dataclass(slots=True)
class ImportReport:
    """``skipped`` adds up both sorts of records."""

    traces: ImportCount = field(default_factory=ImportCount)
    feedback: ImportCount = field(default_factory=ImportCount)
    ledger: Ledger = field(default_factory=Ledger)
    """Empty for formats whose records have no columns."""
    sample: ImportSample = field(default_factory=ImportSample)

    @property
    def skipped(self) -> Counter[str]:
        return self.traces.skipped + self.feedback.skipped

    def as_dict(self) -> dict[str, Any]:
        columns = {"columns": self.ledger.as_list()} if self.ledger.records else {}
        return {"traces": self.traces.as_dict(), "feedback": self.feedback.as_dict(), **columns}


def read_as(meaning: str) -> str:
    return meaning if meaning == KEPT else f"read as {meaning}"


def fates(row: Mapping[str, Any], made: Sequence[Record], meanings: Mapping[str, str]) -> dict[str, str]:
    """What became of each column with a value. ``made``: what the record became, at least one thing; ``meanings``: what its
    importer says."""
    columns = {name: value for name, value in row.items() if value not in (None, "", [], {})}
    return {name: _fate(name, value, made, meanings) for name, value in columns.items()}


def _fate(name: str, value: object, made: Sequence[Record], meanings: Mapping[str, str]) -> str:
    plain, last = _plain(name), made[-1]
    if name in meanings and plain in _TEXTS and isinstance(last, ImportedTrace) and asks_nothing(last.prompt):
        return NO_WORDS
    if plain in _MEDIA or (name in meanings and _shows(value)):
        return SEEN_OR_HEARD
    if name in meanings:
        return read_as(meanings[name])
    if plain in _OPINIONS and not any(record.feedback for record in made):
        return OPINION
    if plain in _TEXTS:
        return REPEATED if _is_said(value, made) else TEXT
    return KEPT if any(isinstance(record, ImportedTrace) and _keeps(record, name) for record in made) else NOT_READ


def _shows(messages: object) -> bool:
    """Are there pictures, films or sounds among the parts of the messages?"""
    if not isinstance(messages, list):
        return False
    contents = (message.get("content") for message in messages if isinstance(message, dict))
    parts = (part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict))
    return any(_MEDIA_PART.search(str(part.get("type"))) for part in parts)


def _keeps(trace: ImportedTrace, name: str) -> bool:
    inner = (value for value in trace.details.values() if isinstance(value, dict))
    return name in trace.details or any(name in value for value in inner)


@lru_cache(1000)
def _printable_name(name: str) -> str:
    return printable(name)[:100]


@lru_cache(1000)
def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _is_said(value: object, made: Sequence[Record]) -> bool:
    """Does every text in it stand in what the record became?"""
    traces = [record for record in made if isinstance(record, ImportedTrace)]
    texts = [message["content"] for trace in traces for message in trace.prompt] + [trace.response for trace in traces]
    all_words = _words("\n".join(texts))
    return all(_words(text) in all_words for text in _texts(value))


def _texts(value: object) -> Iterator[str]:
    """Yields what messages say, and not who says it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        inner: Iterable[Any] = value
        if isinstance(value, dict):
            words = [value[name] for name in ("content", "value") if name in value]
            inner = words or value.values()
        for item in inner:
            yield from _texts(item)


def _words(text: str) -> str:
    return " ".join(text.split())
