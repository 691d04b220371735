"""Command Center's files: the entries of an exhaustive simulation, and people's ratings of them.

A damaged file raises BadFile; a damaged record is yielded as Rejected, with location and reason, and reading goes on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile
from rl.base.records import Message, RatedAnswer, WidgetChoice
from rl.collect.importers.fields import Refused
from rl.collect.json_stream import JsonReader, open_json
from rl.collect.storable import unstorable
from rl.collect.traces.imported import Rejected
from rl.data_formatter.wording.contract import SIZES


@dataclass(frozen=True, slots=True)
class Rating:
    entry_id: str
    up: bool
    tags: tuple[str, ...] = ()
    notes: str = ""
    rated_at: datetime | None = None
    """In UTC; a time without a zone is taken as UTC."""
    device: str | None = None
    """Who rated, which may be empty; None where the file does not say it of each rating."""


@dataclass(frozen=True, slots=True)
class Entry:
    entry_id: str
    question_id: str
    question: str
    scenario: str
    fixture: str
    size: str
    """One of SIZES."""
    category: str = ""
    natural: bool = False
    """The running system chose this scenario itself."""
    forced: bool = False
    """The simulation added it."""
    pipeline_selected_fixture: str | None = None
    widget_index: int = -1
    data_override: dict[str, Any] = field(default_factory=dict)
    layout_context: dict[str, Any] = field(default_factory=dict)
    pipeline_meta: dict[str, Any] = field(default_factory=dict)
    rating: Rating | None = None
    fields: tuple[str, ...] = field(default=(), compare=False)
    """Names of all that the file says of it."""


@dataclass(frozen=True, slots=True)
class EntryRun:
    """What a file of entries says about itself; entry ids are unique within a run only."""

    run_id: str = ""
    created_at: str = ""
    question_bank: str = ""


LONGEST_NAME = 200
"""Characters of an id or a name."""
LONGEST_DEVICE = LONGEST_NAME - len("device:")
ONLY_FIXTURE = "default-render"
"""How a widget that can be drawn in one way only is drawn; the files may leave it empty."""


def read_run(path: Path | str) -> EntryRun:
    """Raises BadFile for a file that is damaged before its entries."""
    values: dict[str, str] = {}
    with open_json(Path(path)) as reader:
        for key in reader.members():
            if key == "entries":
                break  # what describes the run stands in front of them
            value = reader.value()
            if key in EntryRun.__slots__ and isinstance(value, str) and not unstorable(value):
                values[key] = value[:LONGEST_NAME]
    return EntryRun(**values)


def read_entries(path: Path | str) -> Iterator[Entry | Rejected]:
    """In the order of the file, one at a time."""
    with open_json(Path(path)) as reader:
        has_entries = False
        for key in reader.members():
            if key == "entries" and not has_entries and reader.peek() == "[":
                has_entries = True
                seen: set[str] = set()
                reader.location = "at the first entry"
                for number, row in enumerate(reader.elements(), 1):
                    where = _name_of(row, number)
                    reader.location = f"after {where}"
                    try:
                        entry = _entry(row)
                        if entry.entry_id in seen:
                            raise Refused("the entry id was used before in this file")
                        seen.add(entry.entry_id)
                        yield entry
                    except Refused as refused:
                        yield Rejected(where, str(refused))
                reader.location = "after the entries"
            else:
                reader.value()
        reader.end()
    if not has_entries:
        raise BadFile(path, "has no list 'entries'; is this a file of exhaustive simulation data?")


def read_ratings(path: Path | str) -> Iterator[Rating | Rejected]:
    """``{"ratings": {id: rating}}``, the inner object alone, or the server's list of ratings by several devices."""
    with open_json(Path(path)) as reader:
        if reader.peek() == "[":
            yield from (_read_rating(_name_of(row, number), row) for number, row in enumerate(reader.elements(), 1))
        else:
            beside: list[Rejected] = []
            wrapped = False
            for key in reader.members():
                if key == "ratings" and reader.peek() == "{":
                    wrapped = True
                    for entry_id in reader.members():
                        yield _rating_or_rejected(entry_id, reader)
                    continue
                rating = _rating_or_rejected(key, reader)
                if isinstance(rating, Rating):
                    yield rating
                else:
                    beside.append(rating)
            if not wrapped:  # beside "ratings" other keys may stand, such as the device's
                yield from beside
        reader.end()


def entry_to_answer(entry: Entry, up: int, down: int, feedback_ids: Sequence[int] = ()) -> RatedAnswer:
    prompt = entry_prompt(entry)
    return RatedAnswer(
        answer_id=entry.entry_id,
        prompt_key=entry.question_id,
        prompt=prompt,
        response=entry_response(entry),
        up=up,
        down=down,
        feedback_ids=tuple(feedback_ids),
        widget=widget_choice(entry_details(entry), prompt),
    )


def entry_prompt(entry: Entry) -> tuple[Message, ...]:
    """The same for all entries of a question."""
    return (Message(role="user", content=entry.question),)


def entry_response(entry: Entry) -> str:
    return f"{entry.scenario} ({entry.size}): {entry.fixture}"


def entry_details(entry: Entry) -> dict[str, Any]:
    """What a stored answer keeps of its entry, beside prompt and response; ``widget_choice`` reads it back."""
    return {name: getattr(entry, name) for name in ("size", *_REQUIRED, *_OPTIONAL) if name != "question"}


def widget_choice(details: Mapping[str, Any], prompt: Sequence[Message]) -> WidgetChoice | None:
    """None for an answer that chose no widget. The question is the prompt's last user message."""
    scenario, fixture, size = (details.get(name) for name in ("scenario", "fixture", "size"))
    if not (isinstance(scenario, str) and isinstance(fixture, str) and size in SIZES):
        return None
    meta = _object(details.get("pipeline_meta"))
    question = next((message["content"] for message in reversed(prompt) if message["role"] == "user"), "")
    intent, data = _object(meta.get("intent")), _object(details.get("data_override"))
    heading = _object(details.get("layout_context")).get("heading")
    return WidgetChoice(
        scenario, fixture, str(size), question, intent, data, heading if isinstance(heading, str) else ""
    )


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_REQUIRED: dict[str, type] = dict.fromkeys(("entry_id", "question_id", "question", "scenario", "fixture"), str)
_OPTIONAL: dict[str, type] = {
    "category": str,
    "natural": bool,
    "forced": bool,
    "pipeline_selected_fixture": str,
    "widget_index": int,
    **dict.fromkeys(("data_override", "layout_context", "pipeline_meta"), dict),
}
_DESCRIPTIONS = {str: "text", bool: "true or false", int: "a whole number", dict: "an object"}


def _name_of(row: object, number: int) -> str:
    name = row.get("entry_id") if isinstance(row, dict) else None
    usable = isinstance(name, str) and name and len(name) <= LONGEST_NAME and not unstorable(name)
    return f"entry {name}" if usable else f"entry number {number}"


def _entry(row: object) -> Entry:
    if not isinstance(row, dict):
        raise Refused("is not a JSON object")
    if problem := unstorable(row):
        raise Refused(problem)
    if row.get("fixture") == "":
        row = {**row, "fixture": ONLY_FIXTURE}
    values = {name: _field(row, name, wanted) for name, wanted in _REQUIRED.items()}
    for name, wanted in _OPTIONAL.items():
        if row.get(name) is not None:  # null stands for "nothing known", as a missing field does
            values[name] = _field(row, name, wanted)
    if row.get("size") not in SIZES:
        raise Refused(f"size must be one of {', '.join(SIZES)}, not {row.get('size')!r:.50}")
    rating = None if row.get("rating") is None else _rating(values["entry_id"], row)
    known = tuple(name for name, value in row.items() if value not in (None, "", [], {}))
    return Entry(size=row["size"], rating=rating, fields=known, **values)


def _field(row: dict[str, Any], name: str, wanted: type) -> Any:
    if name not in row:
        raise Refused(f"{name} is missing")
    value = row[name]
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise Refused(f"{name} must be {_DESCRIPTIONS[wanted]}, not {value!r:.50}")
    if name in _REQUIRED and not str(value).strip():
        raise Refused(f"{name} is empty")
    if name in _REQUIRED and name != "question" and len(str(value)) > LONGEST_NAME:
        raise Refused(f"{name} is longer than {LONGEST_NAME} characters")
    return value


def _rating_or_rejected(entry_id: str, reader: JsonReader) -> Rating | Rejected:
    row = reader.value()
    where = _name_of({"entry_id": entry_id}, 0) if not unstorable(entry_id) else "an entry"
    reader.location = f"after the rating of {where}"
    return _read_rating(where, row, entry_id)


def _read_rating(where: str, row: object, entry_id: str | None = None) -> Rating | Rejected:
    """A rating without an ``entry_id`` from outside says its own, and whose it is."""
    try:
        if not isinstance(row, dict):
            raise Refused("the rating is not a JSON object")
        if problem := unstorable([entry_id, row]):
            raise Refused(problem)
        if entry_id is None:
            device = row.get("device_id") or ""
            if not isinstance(device, str) or len(device) > LONGEST_DEVICE:
                raise Refused(f"device_id must be text of at most {LONGEST_DEVICE} characters")
            return replace(_rating(_field(row, "entry_id", str), row), device=device)
        return _rating(_field({"entry_id": entry_id}, "entry_id", str), row)
    except Refused as refused:
        return Rejected(where, str(refused))


def _rating(entry_id: str, row: dict[str, Any]) -> Rating:
    if row.get("rating") not in ("up", "down"):
        raise Refused(f"the rating must be up or down, not {row.get('rating')!r:.50}")
    tags = row.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Refused("the rating's tags must be a list of texts")
    notes = row.get("notes") or ""
    if not isinstance(notes, str):
        raise Refused("the rating's notes must be text")
    return Rating(entry_id, row["rating"] == "up", tuple(tags), notes, _time(row.get("rated_at")))


def _time(value: object) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        time = datetime.fromisoformat(value)  # type: ignore[arg-type]
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise Refused(f"rated_at must be an ISO 8601 time, not {value!r:.50}") from None
