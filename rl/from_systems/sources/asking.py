"""Asks a source for JSON, for so long and so many bytes."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

import httpx

from rl.base.errors import SourceFailed
from rl.from_systems.sources.registered import FeedbackSource

SILENCE_SECONDS: Final = 15.0
_REFUSED: Final = {
    401: "the key in {key_env} is not known there",
    403: "the key in {key_env} may not do this; of Open WebUI it must be an administrator's, and keys be switched on",
}


Position = tuple[int, str]
"""The time of the last change in seconds, and the id, behind which all is new."""


class SourceListing(NamedTuple):
    entries: list[tuple[Position, Any]]
    """What there is, in any order, each with what ``fetch`` of its module takes."""
    asked_at: datetime | None


class SourceReply(NamedTuple):
    value: Any
    asked_at: datetime | None
    """By the clock over there."""


class TooMuch(Exception):
    """A reply has more bytes than are read."""


class Gone(Exception):
    """There is no such thing any more."""


class SourceClient:
    def __init__(self, source: FeedbackSource, connection: httpx.Client, until: float) -> None:
        self._source, self._connection, self._until = source, connection, until

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self._until

    def get(self, path: str, most_bytes: int) -> SourceReply:
        """Raises SourceFailed, TooMuch, Gone."""
        url = f"{self._source.url}/{path}"
        try:
            with self._connection.stream("GET", url) as response:
                self._check(response, path)
                body = self._read(response, most_bytes)
        except httpx.HTTPError as error:
            raise self.failure(f"{type(error).__name__}: {error}") from None
        try:
            return SourceReply(json.loads(body), _moment(response.headers.get("date", "")))
        except (ValueError, RecursionError):
            raise self.failure(f"/{path} did not answer with JSON: is {self._source.url} its address?") from None

    def failure(self, what: str) -> SourceFailed:
        return SourceFailed(f"source {self._source.name} at {self._source.url} cannot be asked: {what}"[:500])

    def _check(self, response: httpx.Response, path: str) -> None:
        status = response.status_code
        if status == 404:
            raise Gone(path)
        if status in _REFUSED:
            raise self.failure(_REFUSED[status].format(key_env=self._source.key_env))
        if status != 200:
            raise self.failure(f"/{path} answered {status}")

    def _read(self, response: httpx.Response, most_bytes: int) -> bytes:
        parts: list[bytes] = []
        for part in response.iter_raw():
            parts.append(part)
            if sum(map(len, parts)) > most_bytes:
                raise TooMuch
            if self.is_late:
                raise self.failure("its answer took too long")
        return b"".join(parts)


def bearer(key: str) -> str:
    return f"Bearer {key}"


def basic(key: str) -> str:
    """``key``: user and password with a colon between them."""
    return f"Basic {base64.b64encode(key.encode()).decode()}"


@contextmanager
def asking(source: FeedbackSource, seconds: float, authorization: Callable[[str], str]) -> Iterator[SourceClient]:
    """Follows neither redirects, which would carry the key to another host, nor proxies. Raises UsageError for a missing
    key."""
    headers = {"Authorization": authorization(source.key()), "Accept-Encoding": "identity"}
    with httpx.Client(trust_env=False, follow_redirects=False, timeout=SILENCE_SECONDS, headers=headers) as connection:
        yield SourceClient(source, connection, time.monotonic() + seconds)


def _moment(date: str) -> datetime | None:
    try:
        return parsedate_to_datetime(date)
    except ValueError:
        return None
