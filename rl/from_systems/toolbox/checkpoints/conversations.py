"""The messages of a session as questions and answers, in the shape of a trace file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
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
        elif is_run_summary(role, text):
            turn.steps.append({"step_type": "run_summary", "content": text[:MOST_SUMMARY]})
        elif role == "assistant" and text.strip() and not text.lstrip().startswith(MILESTONE):
            yield turn.answer_with(session_id, message, text)
            turn = _Turn()


def is_run_summary(role: str, text: str) -> bool:
    """What ToolBoxV2 notes of a run for itself, between the question and the answer: since June 2026 as an assistant."""
    return role in ("assistant", "system") and _RUN_SUMMARY.match(text) is not None


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
