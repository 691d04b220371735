"""The trace files that Ratchet's collector writes: ``rl_traces/YYYY-MM-DD/{trace_id}.json``, one object each.

A label becomes a thumb: a person's where one reviewed the trace, else a program's. A score that came with it is kept in the
details."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from rl.base.errors import BadFile, UsageError
from rl.base.records import Message, ReasoningStep, TaskEvent, ToolCall
from rl.base.slugs import printable
from rl.collect.capture.execution_trace import earlier_messages
from rl.collect.importers.fields import Refused, count, identity, moment, notes, number, required_text, text
from rl.collect.importers.rows import Record, records
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace, Rejected

_Row = Mapping[str, Any]
_Item = TypeVar("_Item")

_READ_AS = {
    "trace_id": "the id of the answer",
    "session_id": "the session",
    "timestamp": "the time",
    "user_query": "the question",
    "earlier": "earlier turns",
    "final_response": "the answer",
    "tool_calls": "tool calls",
    "reasoning_steps": "thoughts",
    "label": "a thumb",
    "manual_review": "who gave the thumb",
    "review_notes": "the note of the thumb",
    **dict.fromkeys(("tasks_created", "tasks_completed", "tasks_failed"), "tasks"),
    **dict.fromkeys(("total_tokens_in", "total_tokens_out", "llm_calls_count", "total_cost"), "figures"),
    "execution_duration_ms": "figures",
}


class Raters(NamedTuple):
    """Who is recorded as the one that gave a label."""

    person: str = "user:collector"
    program: str = "system:collector"


OWN = Raters()


def read(path: Path) -> Iterator[Record | Rejected]:
    """One file, or all below a folder; there a damaged file is rejected as a damaged record is, and reading goes on."""
    return read_files(path, trace)


def read_files(path: Path, parse: Callable[[_Row, str], ImportedTrace]) -> Iterator[Record | Rejected]:
    """As ``read``, with another reading of a file's object."""
    if not path.is_dir():
        yield from records(path, lambda row, where: [parse(row, where)], columns=_READ_AS)
        return
    has_files = False
    for file in _files(path):
        has_files = True
        yield from _records_of(file, printable(str(file.relative_to(path))), parse)
    if not has_files:
        raise BadFile(path, "holds no trace files: *.json, in folders named by their date")


def trace(
    row: _Row, where: str, *, agent: str = "", details: _Row | None = None, raters: Raters = OWN
) -> ImportedTrace:
    """From the fields of a trace file. Raises Refused."""
    if row.get("label") not in (True, False, None):
        raise Refused(f"label must be true, false or null, not {row['label']!r:.50}")
    score, feedback = number(row, "reward_score"), tuple[ImportedFeedback, ...]()
    if row.get("label") is not None:
        rater = raters.person if row.get("manual_review") is True else raters.program
        value, note = float(row["label"]), notes(text(row, "review_notes"))
        feedback = (ImportedFeedback(kind="rating", rater=rater, scale="thumb", value=value, notes=note),)
    # In the order in which they happened, where all say when that was.
    events = [
        *_parse_items(row, "tasks_created", lambda task: _event(task, "created")),
        *_parse_items(row, "tasks_completed", lambda task: _event(task, "completed")),
        *_parse_items(row, "tasks_failed", lambda task: _event(task, "failed")),
    ]
    return ImportedTrace(
        where=where,
        external_id=identity(row, "trace_id") or required_text(row, "trace_id"),
        agent=agent,
        session_id=identity(row, "session_id"),
        prompt=(*_earlier(row), Message(role="user", content=required_text(row, "user_query"))),
        response=text(row, "final_response"),
        tool_calls=tuple(_parse_items(row, "tool_calls", _call)),
        reasoning_steps=tuple(_parse_items(row, "reasoning_steps", _step)),
        tasks=tuple(
            sorted(events, key=lambda event: event.timestamp) if all(event.timestamp for event in events) else events
        ),
        tokens_in=count(row, "total_tokens_in") or None,  # 0 stands for what was not counted
        tokens_out=count(row, "total_tokens_out") or None,
        llm_calls=count(row, "llm_calls_count") or None,
        cost=number(row, "total_cost") or None,
        duration_ms=round(number(row, "execution_duration_ms") or 0) or None,
        details={**(details or {}), **({} if score is None else {"reward_score": score})},
        occurred_at=moment(row, "timestamp"),
        feedback=feedback,
    )


def _earlier(row: _Row) -> list[Message]:
    try:
        return earlier_messages(row)
    except UsageError as error:
        raise Refused(str(error)) from error


def _records_of(file: Path, name: str, parse: Callable[[_Row, str], ImportedTrace]) -> Iterator[Record | Rejected]:
    try:
        yield from records(
            file, lambda row, where: [parse(row, name if where == "record 1" else f"{name}, {where}")], columns=_READ_AS
        )
    except BadFile as error:
        yield Rejected(name, f"{error.problem} ({error.location})" if error.location else error.problem)


def _files(folder: Path) -> Iterator[Path]:
    """In the order of their names, so of their dates. What is hidden or a link is left out."""
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (Path(here, name) for name in sorted(names) if name.endswith(".json") and not name.startswith("."))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _parse_items(row: _Row, name: str, read_one: Callable[[_Row], _Item]) -> Iterator[_Item]:
    """Raises Refused with the position of the item."""
    items = row.get(name) or []
    if not isinstance(items, list):
        raise Refused(f"{name} must be a list, not {items!r:.50}")
    for position, item in enumerate(items, start=1):
        try:
            if not isinstance(item, Mapping):
                raise Refused("is not an object")
            yield read_one(item)
        except Refused as refused:
            raise Refused(f"{name} {position}: {refused}") from None


def _call(row: _Row) -> ToolCall:
    error = text(row, "error")
    success = row.get("success")
    return ToolCall(
        tool_name=required_text(row, "tool_name"),
        arguments=row.get("arguments"),
        result=row.get("result"),
        success=success if isinstance(success, bool) else not error,
        duration_ms=number(row, "duration_ms") or None,
        error=error,
        timestamp=text(row, "timestamp"),
    )


def _step(row: _Row) -> ReasoningStep:
    return ReasoningStep(
        content=text(row, "content"),
        step_type=text(row, "step_type"),
        confidence=number(row, "confidence"),
        insights=_texts(row, "insights"),
        issues=_texts(row, "issues"),
    )


def _texts(row: _Row, name: str) -> tuple[str, ...]:
    items = row.get(name) or ()
    if not isinstance(items, (list, tuple)):
        raise Refused(f"{name} must be a list, not {items!r:.50}")
    return tuple(item for item in items if isinstance(item, str))


def _event(task: _Row, status: Literal["created", "completed", "failed"]) -> TaskEvent:
    """One that failed by an exception of the whole run has no id."""
    names = ("task_id", "type", "description", "timestamp", "error")
    return TaskEvent(status=status, result=task.get("result"), **{name: text(task, name) for name in names})
