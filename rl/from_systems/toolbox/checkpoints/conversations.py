"""The messages of a session as questions and answers, in the shape of a trace file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from rl.from_systems.toolbox.checkpoints.lenient import (
    content,
    excerpt,
    fields_of,
    fit,
    items_of,
    moment,
    scalar,
    time_text,
    word,
)

MOST_ARGUMENTS, MOST_RESULT, MOST_ERROR = 20_000, 2_000, 1_000
"""Characters that are kept of a tool call."""
_LONGEST = timedelta(days=1)
"""An answer later than this was not being made all the time."""


def conversations(session_id: str, history: Any) -> Iterator[dict[str, Any]]:
    """Each non-empty message of a user with the next non-empty one of the assistant, and the tools used between them."""
    waiting: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for message in map(fields_of, items_of(history)):
        role, text = word(message.get("role")), content(message.get("content"))
        if role == "user" and text.strip():
            waiting.append((message, []))
        elif role == "tool" and waiting:
            call = _tool_call(message)
            for _, calls in waiting:
                calls.append(call)
        elif role == "assistant" and text.strip():
            for question, calls in waiting:
                yield _trace(session_id, question, calls, message, text)
            waiting = []


def trace_id(session_id: str, query: str, timestamp: str, response: str) -> str:
    """The same conversation has the same id in every checkpoint. Without a time, the answer distinguishes two questions."""
    parts = [session_id, query, timestamp or response]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _trace(
    session_id: str, question: dict[str, Any], calls: list[dict[str, Any]], answer: dict[str, Any], response: str
) -> dict[str, Any]:
    query, timestamp = content(question.get("content")), time_text(question.get("timestamp"))
    return {
        "trace_id": trace_id(session_id, query, timestamp, response),
        "session_id": session_id,
        "timestamp": timestamp if moment(timestamp) else "",
        "user_query": query,
        "tool_calls": calls,
        "final_response": response,
        "execution_duration_ms": _duration(timestamp, time_text(answer.get("timestamp"))),
    }


def _tool_call(message: dict[str, Any]) -> dict[str, Any]:
    error = scalar(message.get("error"))
    return {
        "tool_name": excerpt(message.get("name"), 200) or "unknown",
        "arguments": fit(message.get("arguments"), MOST_ARGUMENTS),
        "result": content(message.get("content"))[:MOST_RESULT] or excerpt(message.get("content"), MOST_RESULT),
        "success": not error,
        "error": excerpt(error, MOST_ERROR) if error else "",
        "timestamp": time_text(message.get("timestamp")),
    }


def _duration(begin: str, end: str) -> float:
    """Milliseconds between question and answer; 0: not known."""
    first, last = moment(begin), moment(end)
    took = last - first if first and last else timedelta()
    return took / timedelta(milliseconds=1) if timedelta() < took < _LONGEST else 0
