"""Langfuse's traces and generations as answers. Input and output may be text, messages, or any JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from rl.collect.importers import chat
from rl.collect.importers.fields import Refused, count, identity, moment, number, others, required, text
from rl.collect.importers.langfuse_values import is_scores
from rl.collect.limits import MAX_WHOLE_NUMBER
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace

_KNOWN = (
    "id",
    "input",
    "output",
    "timestamp",
    "startTime",
    "endTime",
    "createdAt",
    "updatedAt",
    "projectId",
    "sessionId",
    "scores",
    "observations",
    "comments",
    "latency",
    "totalCost",
    "usageDetails",
    "usage",
    "inputTokens",
    "outputTokens",
    "providedModelName",
    "model",
    "bookmarked",
    "public",
)


def answer(row: dict[str, Any], where: str, feedback: tuple[ImportedFeedback, ...]) -> ImportedTrace:
    """``row`` has the names of Langfuse's API. Raises Refused."""
    said = _talk(_parsed(row.get("input")), _parsed(row.get("output")))
    rest = {name: value for name, value in others(row, _KNOWN).items() if not is_scores(name, value)}
    usage = row.get("usageDetails") or row.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return replace(
        chat.trace(where, said, rest, feedback, external_id=_id(row)),
        session_id=identity(row, "sessionId"),
        model_version=(text(row, "providedModelName") or text(row, "model"))[:200],
        tokens_in=count(usage, "input") or count(row, "inputTokens") or None,
        tokens_out=count(usage, "output") or count(row, "outputTokens") or None,
        cost=_not_negative(number(row, "totalCost")),
        duration_ms=_duration(row),
        occurred_at=moment(row, "timestamp") or moment(row, "startTime") or moment(row, "createdAt"),
    )


def _id(row: dict[str, Any]) -> str:
    required(row, "id")
    return identity(row, "id")


def _not_negative(value: float | None) -> float | None:
    return value if value is not None and value > 0 else None


def _duration(row: dict[str, Any]) -> int | None:
    """In milliseconds; the latency is in seconds, but for old exports."""
    start, end = moment(row, "startTime"), moment(row, "endTime")
    seconds = (end - start).total_seconds() if start and end else number(row, "latency") or 0.0
    return round(seconds * 1000) if 0 < seconds * 1000 < MAX_WHOLE_NUMBER else None


def _parsed(value: Any) -> Any:
    """Exports write JSON as text."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _talk(given: Any, made: Any) -> chat.Talk:
    """Messages where they are messages, else the JSON itself as the text of one."""
    asked = given.get("messages") if isinstance(given, dict) else given
    answered = made.get("messages") if isinstance(made, dict) and "messages" in made else made
    answered = [answered] if isinstance(answered, dict) else answered
    if isinstance(answered, list):
        answered = [{"role": "assistant", **one} if isinstance(one, dict) else one for one in answered]
    for prompt in (asked, [{"role": "user", "content": _text(given)}]):
        for response in (answered, [{"role": "assistant", "content": _text(made)}]):
            if isinstance(prompt, list) and isinstance(response, list):
                try:
                    found = chat.talk([*prompt, *response], "input and output")
                except Refused:
                    continue
                if found.response or found.tool_calls:
                    return found
    raise Refused("has no output")


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
