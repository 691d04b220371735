"""What every way in yields: one answer as another system knows it, ready to be stored by ``rl.collect.traces.write``."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Literal

from rl.base.records import Happened, Message
from rl.collect.limits import MAX_ID_LENGTH, MAX_MESSAGES, MAX_WHOLE_NUMBER, ROLES
from rl.collect.storable import unstorable


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFeedback:
    """One thing that somebody said. The fields that its ``kind`` does not use stay empty."""

    kind: Literal["rating", "comparison", "correction", "outcome"]
    rater: str
    """``user:…`` a person, ``device:…`` a browser, ``system:…`` a program."""
    scale: Literal["thumb", "stars", "score", ""] = ""
    value: float | None = None
    """A rating, on its scale; or the number observed as an outcome."""
    choice: Literal["left", "right", "tie", "both_bad", ""] = ""
    """What a comparison chose; left is the trace that carries this feedback."""
    other_external_id: str = ""
    """The right trace of a comparison, which was yielded earlier or is stored already."""
    text: str = ""
    """The corrected answer of a correction."""
    metric: str = ""
    """The name of what an outcome measured."""
    tags: tuple[str, ...] = ()
    notes: str = ""
    rated_at: datetime | None = None
    """When it was said, in UTC; None: as old as its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTrace(Happened):
    where: str
    """As a person finds it in the file: ``line 12``, ``entry e00001``."""
    external_id: str
    """The same answer always has the same one, so that a second import finds it. At most 200 characters."""
    prompt: tuple[Message, ...]
    response: str
    agent: str = ""
    """Empty: the agent that the person named."""
    prompt_key: str = ""
    """Empty: the hash of the prompt's messages."""
    session_id: str = ""
    model_version: str = ""
    """A version's name; one that Ratchet does not know is kept in the details."""
    occurred_at: datetime | None = None
    """In UTC; None: not known."""
    feedback: tuple[ImportedFeedback, ...] = ()
    has_all_details: bool = False
    """These replace all details that are stored: what is missing here is out of date."""
    columns: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """What became of each column of the record that it came from; of several answers of one record the last has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRemark:
    """Feedback on an answer that is here already, from a file that holds no answers."""

    where: str
    external_ids: tuple[str, ...]
    """External ids that the answer may have; the first that is here counts."""
    feedback: tuple[ImportedFeedback, ...]
    agent: str = ""
    """Empty: the agent that the person named."""
    not_here: str = "its answer is not here; import the answers first"
    """Why it is skipped where there is none of the answers."""
    columns: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Rejected:
    where: str
    reason: str


_TEXTS = ("external_id", "prompt_key", "session_id", "response", "agent", "model_version")
_SHORT = ("external_id", "prompt_key", "session_id", "model_version")
_DONE = ("tool_calls", "reasoning_steps", "tasks")
_COUNTS = ("tokens_in", "tokens_out", "llm_calls", "duration_ms")


def problem(record: ImportedTrace) -> str:
    """Why the answer cannot be stored, with the field; empty when it can."""
    return next(chain(_problems_of_words(record), _problems_of_figures(record), _problems_of_values(record)), "")


def feedback_problem(feedback: ImportedFeedback) -> str:
    """What the writer of feedback does not look at itself."""
    if feedback.value is not None and not _is_number(feedback.value):
        return f"the value is not a number: {feedback.value!r:.50}"
    return next(_time("rated_at", feedback.rated_at), "")


def _problems_of_words(record: ImportedTrace) -> Iterator[str]:
    yield from (f"{name} is not text" for name in _TEXTS if not isinstance(getattr(record, name), str))
    if not record.external_id:
        yield "external_id is empty"
    for name in _SHORT:
        if len(getattr(record, name)) > MAX_ID_LENGTH:
            yield f"{name} is longer than {MAX_ID_LENGTH} characters"
    if not record.prompt:
        yield "the prompt is empty"
    if len(record.prompt) > MAX_MESSAGES:
        yield f"the prompt has more than {MAX_MESSAGES} messages"
    for message in record.prompt:
        if message["role"] not in ROLES or not isinstance(message["content"], str):
            yield f"a message of the prompt must have a role ({', '.join(ROLES)}) and text"
    if not record.response.strip() and record.action is None and not record.tool_calls:
        yield "the answer is empty: there is no text, no action and no tool call"


def _problems_of_figures(record: ImportedTrace) -> Iterator[str]:
    for name in _COUNTS:
        number = getattr(record, name)
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_WHOLE_NUMBER:
            yield f"{name} must be a whole number from 0 to {MAX_WHOLE_NUMBER}, not {number!r:.50}"
    if record.cost is not None and not (_is_number(record.cost) and record.cost >= 0):
        yield f"cost must be a number from 0, not {record.cost!r:.50}"
    yield from _time("occurred_at", record.occurred_at)


def _problems_of_values(record: ImportedTrace) -> Iterator[str]:
    texts = {name: getattr(record, name) for name in (*_TEXTS, "prompt", "state", "action")}
    done = {name: [astuple(item) for item in getattr(record, name)] for name in _DONE if getattr(record, name)}
    values = {**texts, "details": dict(record.details), **done}
    if unstorable(list(values.values())):
        yield next((f"{name} {reason}" for name, value in values.items() if (reason := unstorable(value))), "")


def _is_number(value: object) -> bool:
    """One that a column of floating point numbers holds."""
    if isinstance(value, bool):
        return True
    try:
        return isinstance(value, (int, float)) and math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _time(name: str, time: datetime | None) -> Iterator[str]:
    if time is not None and time.utcoffset() != timedelta(0):
        yield f"{name} is not in UTC"
