"""Requests that Django never sees: too large, too slow, too many."""

from __future__ import annotations

import json
from http import HTTPStatus

from rl.web.api.problems import MEDIA_TYPE, document
from rl.web.front.answers import Answer


class Refused(Exception):
    """Answered with a problem document (RFC 9457)."""

    def __init__(
        self, status: HTTPStatus, code: str, detail: str, *, retry_seconds: int = 0, closes: bool = False
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.retry_seconds = status, code, detail, retry_seconds
        self.closes = closes
        """The connection is of no use afterwards: the rest of the request may still come."""

    @property
    def headers(self) -> dict[str, str]:
        wait = {"Retry-After": str(self.retry_seconds)} if self.retry_seconds else {}
        return {**wait, **({"Connection": "close"} if self.closes else {})}

    def answer(self) -> Answer:
        problem = document(self.code, self.status, self.detail)
        return Answer.of(self.status, json.dumps(problem).encode(), MEDIA_TYPE, self.headers)


class ClientLeft(Exception):
    """Nobody is there to answer."""
