"""N3's feedback: ``{"prompt", "response", "score": 0 … 1, "runId", "notes"?, "createdAt"}``. The score is a rating."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rl.base.records import Message
from rl.collect.importers.fields import Refused, content_hash, identity, moment, notes, number, required_text, text
from rl.collect.importers.rows import SUFFIXES, Record, Rejected, records  # noqa: F401  SUFFIXES, for those who ask for it
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace

RATER = "n3"
"""N3 does not say who scored."""
_READ_AS = {
    "prompt": "the question",
    "response": "the answer",
    "score": "the rating",
    "notes": "the note of the rating",
    "runId": "the session",
    "createdAt": "the time",
}


def read(path: Path) -> Iterator[Record | Rejected]:
    """Raises BadFile."""
    return records(path, _feedback, lists=("feedback", "data"), columns=_READ_AS)


def _feedback(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    prompt, response, run = required_text(row, "prompt"), required_text(row, "response"), identity(row, "runId")
    score = number(row, "score")
    if score is None or not 0 <= score <= 1:
        raise Refused(f"score must be a number from 0 to 1, not {row.get('score')!r:.50}")
    at = moment(row, "createdAt")
    rating = ImportedFeedback(
        kind="rating", rater=RATER, scale="score", value=score, notes=notes(text(row, "notes")), rated_at=at
    )
    return [replace(scored_answer(prompt, response, run, at), where=where, feedback=(rating,))]


def scored_answer(prompt: str, response: str, run: str, at: datetime | None) -> ImportedTrace:
    """The same answer of the same run may be scored again, so neither score nor time belongs to its id."""
    return ImportedTrace(
        where="the answer",
        external_id=content_hash(run, prompt, response),
        prompt=(Message(role="user", content=prompt),),
        response=response,
        details={"runId": run} if run else {},
        occurred_at=at,
    )
