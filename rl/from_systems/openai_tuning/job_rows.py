"""The rows of a job's files as answers of its agent: what the assistant said is accepted, and the preferred output is the
better one of two. The answers of a file are one session: a job learns from its own files, a later training from all."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from rl.collect.importers import chat, openai_preference
from rl.collect.importers.rows import records
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace
from rl.collect.traces.rows import chunks
from rl.collect.traces.write import CHUNK, Record, TraceStore
from rl.models import Agent
from rl.models.traces import HELD_OUT, SPLIT

SOURCE: Final = "fine_tuning"
_OFFERED: Final = ("tools", "functions", "parallel_tool_calls")
_ACCEPTED: Final = ImportedFeedback(kind="rating", rater=chat.RATER, scale="thumb", value=1)


def store_rows(agent: Agent, file_id: str, path: Path, kind: str, *, held_out: bool) -> int:
    """How many answers a file has. ``kind``: supervised or dpo; ``held_out``: they are for measuring. Stores nothing twice.
    Raises BadFile."""
    read = openai_preference.read if kind == "dpo" else partial(records, parse=_answers)
    store, count = TraceStore(SOURCE, agent=agent), 0
    marked = {SPLIT: HELD_OUT} if held_out else {}
    for chunk in chunks(_of_file(read(path), file_id, marked), CHUNK):
        store.take(chunk)
        count += len(chunk)
    return count


def _answers(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    """Each answer of the assistant that has a weight; what it did on the way to it belongs to it."""
    messages = row.get("messages")
    turns = messages if isinstance(messages, list) else []
    answers = []
    for number, turn in enumerate(turns):
        follows = turns[number + 1] if number + 1 < len(turns) else {}
        ends = isinstance(turn, dict) and turn.get("role") == "assistant" and follows.get("role") in ("user", None)
        if ends and turn.get("weight", 1):
            more: dict[str, Any] = {name: row[name] for name in _OFFERED if name in row}
            answers.append(chat.trace(where, chat.talk(turns[: number + 1]), more, (_ACCEPTED,), f"{number}"))
    return answers or [chat.trace(where, chat.talk(messages))]


def _of_file(rows: Iterable[Record], file_id: str, marked: Mapping[str, str]) -> Iterator[ImportedTrace]:
    """Ids that no other file has. Damaged rows were refused when the job was made."""
    for row in rows:
        if not isinstance(row, ImportedTrace):
            continue
        line = row.where.rpartition(" ")[2]
        feedback = tuple(
            replace(of, other_external_id=_name(file_id, line, of.other_external_id)) for of in row.feedback
        )
        yield replace(
            row,
            external_id=_name(file_id, line, row.external_id),
            session_id=file_id,
            details={**row.details, **marked},
            feedback=feedback,
        )


def _name(file_id: str, line: str, name: str) -> str:
    return f"{file_id}/{line}/{name}" if name else ""
