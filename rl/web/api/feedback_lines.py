"""Feedback by the thousand: NDJSON, one object a line, and what became of each line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rest_framework import serializers, status
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser

from rl.base.errors import UsageError
from rl.collect.feedback.events import UnreadTrace, rating
from rl.collect.feedback.waiting import Kept
from rl.collect.feedback.write import CHUNK, Rated, UnknownTrace, record_each
from rl.models import ApiKey, Feedback
from rl.web.api.base import success
from rl.web.api.feedback_writing import WAITS, Outcome, check_kind, common, store_checked, with_ids
from rl.web.api.parsers import parse_json
from rl.web.api.problems import TooLarge, problem_response
from rl.web.api.serializers.fields import ObjectField

MOST: Final = 5000
"""Lines of a request: of ratings about a second of work."""
SECONDS: Final = 10.0
"""What other lines may take together; those that are left are not stored."""
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lines:
    numbered: list[tuple[int, bytes]]
    """The lines as they were sent, numbered from 1; empty ones are left out."""


class LinesParser(BaseParser):
    """Lines as they are: a bad one must not keep the others out. Ends of lines are LF or CR LF."""

    media_type = "application/x-ndjson"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        """Gives Lines. Raises ParseError and TooLarge."""
        lines = [(number, line) for number, line in enumerate(stream.read().split(b"\n"), 1) if line.strip()]
        if not lines:
            raise ParseError("there is not a single line with an object")
        if len(lines) > MOST:
            raise TooLarge(f"at most {MOST} lines at a time, not {len(lines)}; send them in parts")
        return Lines(lines)


class FeedbackLine(serializers.Serializer):
    """What became of one line."""

    line = serializers.IntegerField(help_text="Its number in the body, from 1.")
    status = serializers.IntegerField(
        help_text="201 new, 200 superseded or repeated, 202 waits, else the status of the problem."
    )
    id = serializers.IntegerField(required=False, help_text="The event that counts now.")
    problem = ObjectField(required=False)


class FeedbackLines(serializers.Serializer):
    results = FeedbackLine(many=True)


class Late(APIException):
    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_code = "unavailable"
    default_detail = (
        f"this line was not looked at: those before it took {SECONDS:g} seconds; send it again, with fewer lines"
    )


class _Sender(NamedTuple):
    key: ApiKey
    address: str
    deadline: float
    """On the monotonic clock."""

    def store(self, kind: str, checked: dict[str, Any]) -> Outcome | Exception:
        if time.monotonic() > self.deadline:
            return Late()
        try:
            return store_checked(self.key, kind, checked, self.address)
        except (APIException, UsageError) as error:
            return error


def store(key: ApiKey, lines: Lines, address: str) -> list[Result]:
    """In the order of the lines. Stores in short transactions; a line that is refused keeps no other out. ``address``: where
    they come from (``client_address.address_digest``)."""
    sender = _Sender(key, address, time.monotonic() + SECONDS)
    parts = (lines.numbered[start : start + CHUNK] for start in range(0, len(lines.numbered), CHUNK))
    return [result for part in parts for result in _store_part(sender, part)]


def _store_part(sender: _Sender, part: Sequence[tuple[int, bytes]]) -> list[Result]:
    """Ratings together; one after the other the other kinds, and ratings whose answer is not stored: the gateway may have
    given it a moment ago."""
    if time.monotonic() > sender.deadline:
        return [_result(number, Late()) for number, _ in part]
    outcomes: dict[int, Outcome | Exception] = {}
    ratings: dict[int, tuple[dict[str, Any], Feedback]] = {}
    for number, line in part:
        try:
            kind, checked = check_kind(sender.key, parse_json(line))
            if kind == "rating":
                checked = with_ids(sender.key, checked)
                ratings[number] = checked, _event(sender, checked)
            else:
                outcomes[number] = sender.store(kind, checked)
        except (APIException, UsageError) as error:
            outcomes[number] = error
    together = record_each([event for _, event in ratings.values()])
    for (number, (checked, _)), outcome in zip(ratings.items(), together, strict=True):
        outcomes[number] = sender.store("rating", checked) if isinstance(outcome, UnknownTrace) else outcome
    return [_result(number, outcomes[number]) for number in sorted(outcomes)]


def _event(sender: _Sender, checked: dict[str, Any]) -> Feedback:
    trace = UnreadTrace(checked["trace"], sender.key.agent_id)
    fields = common(sender.key, checked, sender.address)
    return rating(trace, scale=checked["scale"], value=checked["value"], **fields)


def _result(number: int, outcome: Outcome | Exception) -> Result:
    if isinstance(outcome, Kept):
        return {"line": number, "status": WAITS}
    if isinstance(outcome, Rated):
        return {"line": number, "status": success(outcome.created), "id": outcome.event.pk}
    refused = problem_response(outcome, {})
    if refused is None:
        raise outcome
    return {"line": number, "status": refused.status_code, "problem": refused.data}
