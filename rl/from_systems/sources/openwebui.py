"""Open WebUI: the ids of all feedback with the times of their last change, then each one that is new, with its chat.

Read from the routes of version 0.12: ``/api/v1/evaluations/feedbacks/all/ids`` and ``/api/v1/evaluations/feedback/ID``.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from rl.collect.importers.openwebui_feedback import feedback_of, thumbs_in
from rl.collect.importers.rows import read_row
from rl.collect.traces.imported import Rejected
from rl.collect.traces.write import Record
from rl.from_systems.sources.asking import Gone, Position, SourceClient, SourceListing, TooMuch, bearer
from rl.from_systems.sources.registered import FeedbackSource

authorization = bearer
FORMAT: Final = "openwebui_feedback"
IDS: Final = "api/v1/evaluations/feedbacks/all/ids"
ONE: Final = "api/v1/evaluations/feedback/"
MOST_BYTES_OF_IDS: Final = 64 * 2**20
"""Enough for 400,000 of them."""
MOST_BYTES: Final = 16 * 2**20
"""The size of one with its chat, as of a line in a file."""
OVERLAP_SECONDS: Final = 2
"""More may come within the second that was asked in, and what is written late may have an earlier time."""


def list_all(client: SourceClient, _since: int) -> SourceListing:
    """All ids, whatever the time. Raises SourceFailed."""
    try:
        reply = client.get(IDS, MOST_BYTES_OF_IDS)
    except Gone:
        raise client.failure(f"it has no /{IDS}: is this Open WebUI, and new enough? 0.12 has it") from None
    except TooMuch:
        raise client.failure(f"/{IDS} has more than {MOST_BYTES_OF_IDS} bytes") from None
    return SourceListing([(position, position[1]) for position in _read_positions(client, reply.value)], reply.asked_at)


def read(rows: Sequence[dict[str, Any] | Rejected | None], _source: FeedbackSource) -> list[Record]:
    return read_rows(rows)


def read_rows(rows: Sequence[dict[str, Any] | Rejected | None]) -> list[Record]:
    """Rows of Open WebUI's API, as those of its file are read."""
    whole = [row for row in rows if isinstance(row, dict)]
    parse = partial(feedback_of, thumbs=thumbs_in(whole))
    read = [read_row(row, f"feedback {str(row.get('id'))[:100]}", parse) for row in whole]
    return [*(row for row in rows if isinstance(row, Rejected)), *chain.from_iterable(read)]


def _read_positions(client: SourceClient, entries: Any) -> Iterator[Position]:
    for entry in entries if isinstance(entries, list) else [entries]:
        changed, row_id = (entry.get("updated_at"), entry.get("id")) if isinstance(entry, dict) else (None, None)
        if not isinstance(changed, int) or not isinstance(row_id, str) or not row_id.replace("-", "").isalnum():
            raise client.failure(f"/{IDS} answered something else than ids with times")
        yield changed, row_id


def fetch(client: SourceClient, row_id: str) -> dict[str, Any] | Rejected | None:
    """None for one that was deleted meanwhile."""
    try:
        row = client.get(ONE + row_id, MOST_BYTES).value
    except Gone:
        return None
    except TooMuch:
        return Rejected(f"feedback {row_id}", f"has more than {MOST_BYTES} bytes with its chat")
    return row if isinstance(row, dict) else Rejected(f"feedback {row_id}", "is not a JSON object")
