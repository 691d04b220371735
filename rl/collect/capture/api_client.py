"""One request to Ratchet, by the standard library."""

from __future__ import annotations

import json
import re
from contextlib import closing
from email.message import Message
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from rl.base.errors import UsageError

PATH = "/api/v1/traces/"
LARGEST_ANSWER = 4 * 1024 * 1024
_KEY = re.compile(r"[!-~]+")


class Answer(NamedTuple):
    status: int
    """0: there was none."""
    document: Any = None
    """What the answer says, if it is JSON."""
    reason: str = ""
    """For people: the problem's text, or why there was no answer."""
    retry_after: float | None = None
    """Seconds."""


class ApiClient:
    """Raises UsageError for an address or a key that cannot be right; the key is in no message."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        self.url = _checked_url(url)
        if not _KEY.fullmatch(key or ""):
            raise UsageError("the API key is missing, or has characters that no key has; it looks like sk_…")
        self._key, self._timeout = key, timeout
        # Neither redirects, which would carry the key to another host, nor any scheme but these two.
        self._opener = OpenerDirector()
        for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
            self._opener.add_handler(handler)

    def post(self, body: bytes) -> Answer:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = Request(self.url, body, headers, method="POST")  # noqa: S310  checked above
        try:
            with closing(self._opener.open(request, timeout=self._timeout)) as response:
                return _answer(response.status, response.read(LARGEST_ANSWER), response.headers)
        except (OSError, HTTPException, ValueError) as error:
            return Answer(0, reason=str(getattr(error, "reason", "")) or type(error).__name__)


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(f"the address of the API must look like https://ratchet.example, not {parts.geturl()[:100]!r}")
    if parts.username or parts.password:
        raise UsageError("the address of the API must not contain a user name or a password")
    return url.rstrip("/") + PATH


def _answer(status: int, text: bytes, headers: Message) -> Answer:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    reason = problem_text(document) or "no answer of Ratchet's"
    if 300 <= status < 400:
        reason = f"the address redirects to {headers.get('Location', '')[:200]!r}: use that one"
    return Answer(status, document, reason, _seconds(headers.get("Retry-After")))


def problem_text(problem: Any) -> str:
    """The text of a problem document (RFC 9457)."""
    if not isinstance(problem, dict):
        return ""
    return str(problem.get("detail") or problem.get("title") or "")[:500]


def _seconds(retry_after: str | None) -> float | None:
    """Seconds to wait by a Retry-After header; None for its other form, a date, which Ratchet never sends."""
    return float(retry_after) if retry_after and re.fullmatch(r"[0-9]{1,6}", retry_after) else None
