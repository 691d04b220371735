"""Langfuse: the scores of a time and after, then for each the generations of its trace.

Read from the calls of its SDK in version 5: ``/api/public/v3/scores`` and ``/api/public/v2/observations``.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from rl.base.errors import BadFile
from rl.collect.importers.fields import Refused
from rl.collect.importers.langfuse_score import read_scales, record_of, scales_of
from rl.collect.importers.rows import read_row
from rl.collect.traces.imported import Rejected
from rl.collect.traces.write import Record
from rl.from_systems.sources.asking import Gone, Position, SourceClient, SourceListing, TooMuch, basic
from rl.from_systems.sources.registered import FeedbackSource

authorization = basic
FORMAT: Final = "langfuse_score"
SCORES: Final = "api/public/v3/scores"
OBSERVATIONS: Final = "api/public/v2/observations"
MOST_BYTES: Final = 16 * 2**20
"""The size of a page of scores, and of the generations of a trace."""
PAGE: Final = 100
MOST_PAGES: Final = 500
OVERLAP_SECONDS: Final = 120
"""A score has the time at which it was given, and comes a little later."""
_ID: Final = re.compile(r"[\w.:-]{1,200}")


def list_all(client: SourceClient, since: int) -> SourceListing:
    """The scores since then. Raises SourceFailed."""
    asked = {"limit": PAGE, "fields": "details,subject,annotation"}
    if since > 0:
        asked["fromTimestamp"] = datetime.fromtimestamp(since, UTC).isoformat().replace("+00:00", "Z")
    entries: list[tuple[Position, Any]] = []
    cursor, first = "", None
    for _ in range(MOST_PAGES):
        try:
            reply = client.get(f"{SCORES}?{urlencode({**asked, **({'cursor': cursor} if cursor else {})})}", MOST_BYTES)
        except (Gone, TooMuch) as error:
            raise client.failure(f"/{SCORES} cannot be read ({type(error).__name__}): is this Langfuse?") from None
        first = first or reply.asked_at
        page = reply.value if isinstance(reply.value, dict) else {}
        entries += _read_positions(client, page.get("data"))
        cursor = page["meta"].get("cursor") if isinstance(page.get("meta"), dict) else ""
        if not isinstance(cursor, str) or not cursor:
            return SourceListing(entries, first)
    raise client.failure(f"there are more than {PAGE * MOST_PAGES} scores: import an export first")


def _read_positions(client: SourceClient, scores: Any) -> Iterator[tuple[Position, Any]]:
    for score in scores if isinstance(scores, list) else [scores]:
        try:
            moment = datetime.fromisoformat(score["timestamp"])
            yield (int(moment.timestamp()), str(score["id"])), score
        except (KeyError, TypeError, ValueError, OverflowError):
            raise client.failure(f"/{SCORES} answered something else than scores with times") from None


def fetch(client: SourceClient, score: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | str]:
    """The score and the generation that it is about, or why there is none: the observation that it names, else the last
    generation of its trace. Raises SourceFailed."""
    subject = score.get("subject")
    subject = subject if isinstance(subject, dict) else {}
    trace_id = subject.get("id") if subject.get("kind") == "trace" else subject.get("traceId")
    if subject.get("kind") not in ("trace", "observation") or not _ID.fullmatch(str(trace_id)):
        return score, "is about no trace"
    asked = {"traceId": trace_id, "type": "GENERATION", "fields": "core,basic,io,model,usage", "limit": PAGE}
    try:
        reply = client.get(f"{OBSERVATIONS}?{urlencode(asked)}", MOST_BYTES)
    except Gone:
        return score, "is about a trace that is not there"
    except TooMuch:
        return score, f"is about a trace with more than {MOST_BYTES} bytes"
    listed = reply.value.get("data") if isinstance(reply.value, dict) else None
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    own = [row for row in rows if row.get("id") == subject["id"]] if subject["kind"] == "observation" else []
    ordered = sorted(own or rows, key=lambda row: str(row.get("startTime")))
    return score, ordered[-1] if ordered else "is about a trace without generations"


def read(fetched: Sequence[tuple[dict[str, Any], dict[str, Any] | str]], source: FeedbackSource) -> list[Record]:
    """Each answer, and what the score says of it: also of one that came another way, in other words."""
    records: list[Record] = []
    for score, row in fetched:
        where = f"score {str(score.get('id'))[:100]}"
        if isinstance(row, str):
            records.append(Rejected(where, row))
            continue
        try:
            parse = partial(record_of, scales=_scales(score, source))
        except Refused as error:
            records.append(Rejected(where, str(error)))
            continue
        records += read_row(row, where, parse)
        records += read_row({**score, "observationId": row.get("id"), "traceId": row.get("traceId")}, where, parse)
    return records


def _scales(score: dict[str, Any], source: FeedbackSource) -> dict[str, tuple[float, float]]:
    try:
        return scales_of([score], Path(), read_scales(source.scales))
    except BadFile:
        name = str(score.get("name"))
        raise Refused(
            f"the score {name!r:.60} is 1: the best of 0 to 1, or the worst of 1 to 5? say scales: [{name:.60}=0..1]"
        ) from None
