"""Langfuse's exports: traces and generations with their scores, and files of scores alone. JSON, JSON lines, CSV or Parquet.

A row with input and output is an answer, known by its id. A row with a trace id, a name and a value is a score of an answer
that is here already. Names may be those of Langfuse's API (``traceId``) or those of its storage (``trace_id``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rl.collect.importers.fields import NotForUs, Refused, identity
from rl.collect.importers.langfuse_answers import answer
from rl.collect.importers.langfuse_values import Range, column_scores, feedback, is_scores, ranges
from rl.collect.importers.rows import TABLES, Record, records, rows
from rl.collect.traces.imported import ImportedRemark, Rejected

__all__ = ["SUFFIXES", "read"]
SUFFIXES = TABLES
_LISTS = ("data",)
_ANSWERS = ("", "GENERATION")
"""Types of observations; a trace has none."""


def read(path: Path) -> Iterator[Record | Rejected]:
    """Reads the file twice: what a score of 1 means shows in its other values. Raises BadFile."""
    return records(path, partial(_row, value_ranges=ranges(_all_scores(path))), lists=_LISTS)


def _all_scores(path: Path) -> Iterator[Mapping[str, Any]]:
    for _, row in rows(path, _LISTS):
        if isinstance(row, dict):
            api_row = _with_api_names(row)
            yield from (score for score in (api_row, *_scores(api_row, row)) if isinstance(score, dict))


def _row(row: dict[str, Any], where: str, value_ranges: Mapping[str, Range]) -> list[Record]:
    api_row = _with_api_names(row)
    if api_row.get("output") is not None or api_row.get("input") is not None:
        if api_row.get("type") not in (None, *_ANSWERS):
            raise NotForUs(f"an observation that is not an answer: {api_row.get('type')!r:.30}")
        opinions = tuple(opinion for score in _scores(api_row, row) if (opinion := _feedback(score, value_ranges)))
        return [answer(api_row, where, opinions)]
    if not api_row.get("name") or not {"value", "stringValue"} & api_row.keys():
        if {"traceId", "projectId", "timestamp", "startTime"} & api_row.keys():
            raise NotForUs("has neither input and output nor a score")
        raise Refused("is neither an answer (id, input, output) nor a score (traceId, name, value)")
    ids = tuple(filter(None, (identity(api_row, "observationId"), identity(api_row, "traceId"))))
    if not ids:
        raise NotForUs("a score of a session, not of an answer")
    return [ImportedRemark(where=where, external_ids=ids, feedback=(feedback(api_row, value_ranges),))]


def _feedback(score: object, value_ranges: Mapping[str, Range]) -> Any:
    """None for a score that says nothing here: the answer is worth having without it."""
    if not isinstance(score, dict):
        raise Refused("scores must be objects")
    try:
        return feedback(score, value_ranges)
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
