"""The messages of a session as questions and answers, in the shape of a trace file. Nobody promises the shape of the data:
what does not fit is empty, and nothing large is written out whole."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

_LARGEST = 2**53


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of an object, or the items of a dict or of a subclass of one; empty for anything else."""
    if not isinstance(value, dict):
        return {}
    if isinstance(pairs := value.get("$pairs"), list):
        pairs = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2]
        # text of another key may be endless: it can share lists with itself
        return {str(scalar(key)): inner for key, inner in pairs if isinstance(scalar(key), (str, int, float))}
    mapping = value.get("$mapping")
    return {**value, **mapping} if isinstance(mapping, dict) else value


def items_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = value.get("$elements")
    return value if isinstance(value, list) else []


def scalar(value: Any) -> Any:
    """A member of an enum is its value, or its name."""
    if isinstance(value, dict):
        if "$value" in value:
            return value["$value"]
        if isinstance(type_name := value.get("$type"), str):
            return type_name.rpartition(".")[2]
    return value


def word(value: Any) -> str:
    """A role or a status, in small letters."""
    text = scalar(value)
    return text.strip().lower() if isinstance(text, str) else ""


def content(value: Any) -> str:
    """The text of a message's content, which is text or a list of parts of which some are text."""
    plain = scalar(value)
    if isinstance(plain, str):
        return plain
    parts = (fields_of(part).get("text") if isinstance(part, dict) else part for part in items_of(plain)[:1000])
    return "\n".join(part for part in parts if isinstance(part, str))


def excerpt(value: Any, limit: int) -> str:
    """At most that many characters: of a text itself, of anything else as JSON, of which no more is written."""
    plain = scalar(value)
    if plain is None:
        return ""
    if isinstance(plain, str):
        return plain[:limit]
    pieces, length = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(plain):
        pieces.append(piece)
        length += len(piece)
        if length > limit:
            break
    return "".join(pieces)[:limit]


def fit(value: Any, limit: int) -> Any:
    """The value where its JSON text has at most that many characters, else the beginning of that text."""
    text = excerpt(value, limit + 1)
    return value if len(text) <= limit else text[:limit]


def number(value: Any) -> float:
    """A count or a sum; 0 for what is none."""
    count = scalar(value)
    if isinstance(count, bool) or not isinstance(count, (int, float)) or not isfinite(count):
        return 0
    return count if 0 <= count <= _LARGEST else 0


def time_text(value: Any) -> str:
    """As the file has it: ISO 8601 text, a date (which is such text here), or seconds since 1970."""
    time = scalar(value)
    if isinstance(time, (int, float)) and number(time):
        try:
            return datetime.fromtimestamp(time, UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            return ""
    return time[:64] if isinstance(time, str) else ""


def moment(text: str) -> datetime | None:
    """In UTC; a time without a zone is taken as UTC."""
    try:
        time = datetime.fromisoformat(text.strip())
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


MOST_ARGUMENTS, MOST_RESULT, MOST_ERROR = 20_000, 2_000, 1_000
"""Characters that are kept of a tool call."""
MOST_SUMMARY = 1_000
"""Characters that are kept of a run's summary."""
MILESTONE = "--- FOKUS-WECHSEL"
"""How a message begins that marks another focus within a run."""
BETWEEN_QUESTIONS = "\n\n"
_RUN_SUMMARY = re.compile(r"\W{0,10}RUN SUMMARY \[")
_LONGEST = timedelta(days=1)
"""An answer later than this was not being made all the time."""


def conversations(session_id: str, history: Any) -> Iterator[dict[str, Any]]:
    """The non-empty messages of a user up to the next non-empty one of the assistant, with what happened between them.
    Several questions before one answer are one conversation."""
    turn = _Turn()
    for message in map(fields_of, items_of(history)):
        role, text = word(message.get("role")), content(message.get("content"))
        if role == "user" and text.strip():
            turn.questions.append(message)
        elif not turn.questions:
            continue
        elif role == "tool":
            turn.calls.append(_tool_call(message))
        elif role in ("assistant", "system") and _RUN_SUMMARY.match(text):  # notes of ToolBoxV2 for itself
            turn.steps.append({"step_type": "run_summary", "content": text[:MOST_SUMMARY]})
        elif role == "assistant" and text.strip() and not text.lstrip().startswith(MILESTONE):
            yield turn.answer_with(session_id, message, text)
            turn = _Turn()


def trace_id(session_id: str, query: str, timestamp: str, response: str, repeat: int = 0) -> str:
    """The same conversation has the same id in every checkpoint. Without a time, the answer distinguishes two questions,
    and ``repeat`` says how often they were there before."""
    parts: list[Any] = [session_id, query, timestamp or response]
    return hashlib.sha256(json.dumps(parts + [repeat] * bool(repeat)).encode()).hexdigest()[:32]


@dataclass(slots=True)
class _Turn:
    """What came since the last answer."""

    questions: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)

    def answer_with(self, session_id: str, answer: dict[str, Any], response: str) -> dict[str, Any]:
        query = BETWEEN_QUESTIONS.join(content(question.get("content")) for question in self.questions)
        timestamp = time_text(self.questions[0].get("timestamp"))
        return {
            "trace_id": trace_id(session_id, query, timestamp, response),
            "session_id": session_id,
            "timestamp": timestamp if moment(timestamp) else "",
            "user_query": query,
            "tool_calls": self.calls,
            "reasoning_steps": self.steps,
            "final_response": response,
            "execution_duration_ms": _duration(timestamp, time_text(answer.get("timestamp"))),
        }


def _tool_call(message: dict[str, Any]) -> dict[str, Any]:
    """One without a name is of version 2.0, which tells of failures in the text alone."""
    error, text = scalar(message.get("error")), content(message.get("content"))
    if not error and not message.get("name") and text.startswith("Error:"):
        error = text
    return {
        "tool_name": excerpt(message.get("name"), 200) or "unknown",
        "arguments": fit(message.get("arguments"), MOST_ARGUMENTS),
        "result": text[:MOST_RESULT] or excerpt(message.get("content"), MOST_RESULT),
        "success": not error,
        "error": excerpt(error, MOST_ERROR) if error else "",
        "timestamp": time_text(message.get("timestamp")),
    }


def _duration(begin: str, end: str) -> float:
    """Milliseconds between question and answer; 0: not known."""
    first, last = moment(begin), moment(end)
    took = last - first if first and last else timedelta()
    return took / timedelta(milliseconds=1) if timedelta() < took < _LONGEST else 0
