"""N3's feedback: ``{"prompt", "response", "score": 0 … 1, "runId", "notes"?, "createdAt"}``. The score is a rating."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rl.collect.imported import ImportedFeedback, ImportedTrace
from rl.collect.importers.fields import Refused, content_hash, identity, moment, notes, number, required, text
from rl.collect.importers.rows import SUFFIXES, Record, Rejected, records
from rl.records import Message

__all__ = ["SUFFIXES", "read"]
_RATER = "n3"


def read(path: Path) -> Iterator[Record | Rejected]:
    """Raises BadFile."""
    return records(path, _feedback, lists=("feedback", "data"))


def _feedback(row: dict[str, Any], where: str) -> list[ImportedTrace]:
    prompt, response, run = required(row, "prompt"), required(row, "response"), identity(row, "runId")
    score = number(row, "score")
    if score is None or not 0 <= score <= 1:
        raise Refused(f"score must be a number from 0 to 1, not {row.get('score')!r:.50}")
    said = ImportedFeedback(
        kind="rating", rater=_RATER, scale="score", value=score, notes=notes(text(row, "notes")),
        rated_at=moment(row, "createdAt"),
    )  # fmt: skip
    # The same answer of the same run may be scored again, so neither score nor time belongs to its id.
    return [
        ImportedTrace(
            where=where,
            external_id=content_hash(run, prompt, response),
            prompt=(Message(role="user", content=prompt),),
            response=response,
            details={"runId": run} if run else {},
            occurred_at=moment(row, "createdAt"),
            feedback=(said,),
        )
    ]
