"""How often strangers may come in a minute, by address: anonymous ones, those with wrong keys, those who sign in.

Each process counts for itself, in memory, and looks at no database: whoever is above a limit costs next to nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, Final, cast

from django.conf import settings
from django.http import HttpRequest

from rl.web.client_address import client_network
from rl.web.front.answers import Headers
from rl.web.front.refusals import Refused

WINDOW_SECONDS: Final = 60
SIGN_IN_PATHS: Final = ("/login/", "/admin/login/")
_KEYS: Final = "wrong keys"
_SESSIONS: Final = "sessions that ended"


class Limits:
    def __init__(self) -> None:
        self._window = 0
        self._counts: Counter[tuple[str, str]] = Counter()

    def admit(self, scope: Any, address: str) -> None:
        """Counts the request. Raises Refused (429)."""
        if scope["path"] in SIGN_IN_PATHS and scope["method"] == "POST":
            self._require(self._count("sign-ins", address), settings.SIGN_INS_PER_MINUTE, "sign-ins")
        if kind := _credentials(scope):
            self._require(self._count(kind, address, 0) + 1, settings.ANONYMOUS_REQUESTS_PER_MINUTE, kind)
        else:
            count = self._count("anonymous", address)
            self._require(count, settings.ANONYMOUS_REQUESTS_PER_MINUTE, "requests without a key")

    def note(self, scope: Any, address: str, status: int, headers: Headers) -> None:
        """Looks at an answer, and counts credentials that did not hold."""
        is_refused = status == HTTPStatus.UNAUTHORIZED or (status == HTTPStatus.FOUND and _lead_to_sign_in(headers))
        if is_refused and (kind := _credentials(scope)):
            self._count(kind, address)

    def _count(self, kind: str, address: str, more: int = 1) -> int:
        window = int(time.time()) // WINDOW_SECONDS
        if window != self._window:
            self._window = window
            self._counts.clear()
        if more:
            self._counts[kind, address] += more
        return self._counts[kind, address]

    def _require(self, count: int, most: int, what: str) -> None:
        if count > most:
            wait = WINDOW_SECONDS - int(time.time()) % WINDOW_SECONDS
            detail = f"more than {most} {what} in a minute from one address; go on in {wait} seconds"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "throttled", detail, retry_seconds=wait)


def address_of(scope: Any) -> str:
    """The client's address, as far as NUM_PROXIES says that X-Forwarded-For can be trusted; empty if none is known."""
    remote = scope["client"][0] if scope.get("client") else ""
    forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    headers = {"x-forwarded-for": ",".join(forwarded)} if forwarded else {}
    request = SimpleNamespace(META={"REMOTE_ADDR": remote}, headers=headers)
    return client_network(cast(HttpRequest, request)) or ""


def _credentials(scope: Any) -> str:
    """Which ones the request claims to have; empty: none."""
    cookie = f"{settings.SESSION_COOKIE_NAME}=".encode()
    for name, value in scope["headers"]:
        if name == b"authorization":
            return _KEYS
        if name == b"cookie" and cookie in value:
            return _SESSIONS
    return ""


def _lead_to_sign_in(headers: Headers) -> bool:
    location = next((value for name, value in headers if name == b"location"), b"")
    return location.partition(b"?")[0].decode("latin-1") in SIGN_IN_PATHS
