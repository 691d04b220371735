"""Langfuse's exports: traces and generations with their scores, and files of scores alone. JSON, JSON lines, CSV or Parquet.

A row with input and output is an answer, known by its id. A row with a trace id, a name and a value is a score of an answer
that is here already. Names may be those of Langfuse's API (``traceId``) or those of its storage (``trace_id``).

Of traces and generations, input and output may be text, messages, or any JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rl.collect.importers import chat
from rl.collect.importers.fields import NotForUs, Refused, count, identity, moment, number, others, required_text, text
from rl.collect.importers.langfuse_values import Range, column_scores, feedback, is_scores, read_scales, scales_of
from rl.collect.importers.ledger import KEPT
from rl.collect.importers.rows import TABLES, Record, records, rows
from rl.collect.limits import MAX_WHOLE_NUMBER
from rl.collect.traces.imported import ImportedFeedback, ImportedRemark, ImportedTrace, Rejected

__all__ = ["SUFFIXES", "read", "read_scales"]
SUFFIXES = TABLES
_LISTS = ("data",)
_ANSWERS = ("", "GENERATION")
"""Types of observations; a trace has none."""
_READ_AS = {
    name: meaning
    for meaning, names in {
        "the question": ("input",),
        "the answer": ("output",),
        "the id of the answer": ("id", "traceId", "trace_id", "observationId", "observation_id"),
        "scores": ("scores", "name", "value", "stringValue", "string_value", "dataType", "data_type", "source"),
        "the note of a score": ("comment",),
        "the rater": ("authorUserName", "author_user_name", "authorUserId", "author_user_id"),
        "the time": ("timestamp", "startTime", "start_time", "endTime", "end_time", "createdAt", "created_at"),
        "the session": ("sessionId", "session_id"),
        "figures": ("latency", "totalCost", "total_cost", "usageDetails", "usage_details", "usage", "inputTokens")
        + ("input_tokens", "outputTokens", "output_tokens"),
        "the model": ("providedModelName", "provided_model_name", "model"),
        "an answer with its scores": ("trace",),
    }.items()
    for name in names
}
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


def read(path: Path, scales: Mapping[str, Range] | None = None) -> Iterator[Record | Rejected]:
    """Reads the file twice: what a score of 1 means shows in its other values, unless ``scales`` says it. Raises BadFile."""
    known = scales_of(_all_scores(path), path, scales or {})
    return records(path, partial(_row, scales=known), lists=_LISTS, columns=_READ_AS)


def _all_scores(path: Path) -> Iterator[Mapping[str, Any]]:
    for _, row in rows(path, _LISTS):
        if isinstance(row, dict):
            api_row = _with_api_names(row)
            yield from (score for score in (api_row, *_scores(api_row, row)) if isinstance(score, dict))


def _row(row: dict[str, Any], where: str, scales: Mapping[str, Range]) -> list[Record]:
    api_row = _with_api_names(row)
    if api_row.get("output") is not None or api_row.get("input") is not None:
        if api_row.get("type") not in (None, *_ANSWERS):
            raise NotForUs(f"an observation that is not an answer: {api_row.get('type')!r:.30}")
        opinions = tuple(opinion for score in _scores(api_row, row) if (opinion := _feedback(score, scales)))
        return [replace(answer(api_row, where, opinions), columns={"name": KEPT})]
    if not api_row.get("name") or not {"value", "stringValue"} & api_row.keys():
        if {"traceId", "projectId", "timestamp", "startTime"} & api_row.keys():
            raise NotForUs("has neither input and output nor a score")
        raise Refused("is neither an answer (id, input, output) nor a score (traceId, name, value)")
    ids = tuple(filter(None, (identity(api_row, "observationId"), identity(api_row, "traceId"))))
    if not ids:
        raise NotForUs("a score of a session, not of an answer")
    return [ImportedRemark(where=where, external_ids=ids, feedback=(feedback(api_row, scales),))]


def _feedback(score: object, scales: Mapping[str, Range]) -> Any:
    """None for a score that says nothing here: the answer is worth having without it."""
    if not isinstance(score, dict):
        raise Refused("scores must be objects")
    try:
        return feedback(score, scales)
    except NotForUs:
        return None


def _with_api_names(row: dict[str, Any]) -> dict[str, Any]:
    """With the names of the API. A trace downloaded from its page stands beside its scores."""
    if isinstance(row.get("trace"), dict) and "id" in row["trace"]:
        row = {**row["trace"], "scores": row.get("scores")}
    return {re.sub(r"_([a-z])", lambda match: match[1].upper(), name): value for name, value in row.items()}


def _scores(api_row: Mapping[str, Any], row: Mapping[str, Any]) -> list[Any]:
    """Those of an answer: a list of scores, or columns with their names."""
    scores = api_row.get("scores")
    if isinstance(scores, list):
        return [_with_api_names(score) if isinstance(score, dict) else score for score in scores]
    columns = scores if isinstance(scores, dict) else row
    return list(column_scores({name: values for name, values in columns.items() if is_scores(name, values)}))


def answer(row: dict[str, Any], where: str, feedback: tuple[ImportedFeedback, ...]) -> ImportedTrace:
    """``row`` has the names of Langfuse's API. Raises Refused."""
    talk = _talk(_parse_json(row.get("input")), _parse_json(row.get("output")))
    rest = {name: value for name, value in others(row, _KNOWN).items() if not is_scores(name, value)}
    usage = row.get("usageDetails") or row.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return replace(
        chat.trace(where, talk, rest, feedback, external_id=_id(row)),
        session_id=identity(row, "sessionId"),
        model_version=(text(row, "providedModelName") or text(row, "model"))[:200],
        tokens_in=count(usage, "input") or count(row, "inputTokens") or None,
        tokens_out=count(usage, "output") or count(row, "outputTokens") or None,
        cost=_not_negative(number(row, "totalCost")),
        duration_ms=_duration(row),
        occurred_at=moment(row, "timestamp") or moment(row, "startTime") or moment(row, "createdAt"),
    )


def _id(row: dict[str, Any]) -> str:
    required_text(row, "id")
    return identity(row, "id")


def _not_negative(value: float | None) -> float | None:
    return value if value is not None and value > 0 else None


def _duration(row: dict[str, Any]) -> int | None:
    """In milliseconds; the latency is in seconds, but for old exports."""
    start, end = moment(row, "startTime"), moment(row, "endTime")
    seconds = (end - start).total_seconds() if start and end else number(row, "latency") or 0.0
    return round(seconds * 1000) if 0 < seconds * 1000 < MAX_WHOLE_NUMBER else None


def _parse_json(value: Any) -> Any:
    """Exports write JSON as text."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _talk(prompt_input: Any, output: Any) -> chat.Talk:
    """Messages where they are messages, else the JSON itself as the text of one."""
    prompt_messages = prompt_input.get("messages") if isinstance(prompt_input, dict) else prompt_input
    answer_messages = output.get("messages") if isinstance(output, dict) and "messages" in output else output
    answer_messages = [answer_messages] if isinstance(answer_messages, dict) else answer_messages
    if isinstance(answer_messages, list):
        answer_messages = [
            {"role": "assistant", **message} if isinstance(message, dict) else message for message in answer_messages
        ]
    for prompt in (prompt_messages, [{"role": "user", "content": _text(prompt_input)}]):
        for response in (answer_messages, [{"role": "assistant", "content": _text(output)}]):
            if isinstance(prompt, list) and isinstance(response, list):
                try:
                    talk = chat.talk([*prompt, *response], "input and output")
                except Refused:
                    continue
                if talk.response or talk.tool_calls:
                    return talk
    raise Refused("has no output")


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
