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
from rl.collect.importers.langfuse_values import Range, feedback, flattened, is_scores, ranges
from rl.collect.importers.rows import TABLES as SUFFIXES
from rl.collect.importers.rows import Record, records, rows
from rl.collect.traces.imported import ImportedRemark, Rejected

__all__ = ["SUFFIXES", "read"]
_LISTS = ("data",)
_ANSWERS = ("", "GENERATION")
"""Types of observations; a trace has none."""


def read(path: Path) -> Iterator[Record | Rejected]:
    """Reads the file twice: what a score of 1 means shows in its other values. Raises BadFile."""
    return records(path, partial(_row, found=ranges(_all_scores(path))), lists=_LISTS)


def _all_scores(path: Path) -> Iterator[Mapping[str, Any]]:
    for _, row in rows(path, _LISTS):
        if isinstance(row, dict):
            named = _named(row)
            yield from (one for one in (named, *_scores(named, row)) if isinstance(one, dict))


def _row(row: dict[str, Any], where: str, found: Mapping[str, Range]) -> list[Record]:
    named = _named(row)
    if named.get("output") is not None or named.get("input") is not None:
        if named.get("type") not in (None, *_ANSWERS):
            raise NotForUs(f"an observation that is no answer: {named.get('type')!r:.30}")
        said = tuple(one for score in _scores(named, row) if (one := _feedback(score, found)))
        return [answer(named, where, said)]
    if not named.get("name") or not {"value", "stringValue"} & named.keys():
        if {"traceId", "projectId", "timestamp", "startTime"} & named.keys():
            raise NotForUs("has neither input and output nor a score")
        raise Refused("is neither an answer (id, input, output) nor a score (traceId, name, value)")
    ids = tuple(filter(None, (identity(named, "observationId"), identity(named, "traceId"))))
    if not ids:
        raise NotForUs("a score of a session, not of an answer")
    return [ImportedRemark(where=where, external_ids=ids, feedback=(feedback(named, found),))]


def _feedback(score: object, found: Mapping[str, Range]) -> Any:
    """None for a score that says nothing here: the answer is worth having without it."""
    if not isinstance(score, dict):
        raise Refused("scores must be objects")
    try:
        return feedback(score, found)
    except NotForUs:
        return None


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """With the names of the API. A trace downloaded from its page stands beside its scores."""
    if isinstance(row.get("trace"), dict) and "id" in row["trace"]:
        row = {**row["trace"], "scores": row.get("scores")}
    return {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): value for name, value in row.items()}


def _scores(named: Mapping[str, Any], row: Mapping[str, Any]) -> list[Any]:
    """Those of an answer: a list of scores, or columns with their names."""
    given = named.get("scores")
    if isinstance(given, list):
        return [_named(one) if isinstance(one, dict) else one for one in given]
    columns = given if isinstance(given, dict) else row
    return list(flattened({name: values for name, values in columns.items() if is_scores(name, values)}))
