"""What strangers may cost, before Django is asked: how often they come in a minute, by address (anonymous ones, those with
wrong keys, those who sign in), how much their bodies may hold together, and by which names the site is called.

Each process counts for itself, in memory, and looks at no database: whoever is above a limit costs next to nothing."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, Final, cast

from django.conf import settings
from django.http import HttpRequest
from django.http.request import split_domain_port, validate_host

from rl.web.client_address import client_network
from rl.web.front.answers import Headers, RequestRefused

WINDOW_SECONDS: Final = 60
SIGN_IN_PATHS: Final = ("/login/", "/admin/login/")
log = logging.getLogger(__name__)


class RequestLimits:
    def __init__(self) -> None:
        self._window = 0
        self._counts: Counter[tuple[str, str]] = Counter()

    def admit(self, scope: Any, address: str) -> None:
        """Counts the request. Raises RequestRefused (429)."""
        if scope["path"] in SIGN_IN_PATHS and scope["method"] == "POST":
            self._require(self._count("sign-ins", address), settings.SIGN_INS_PER_MINUTE, "sign-ins")
        kind = _credentials(scope)
        count = self._count(kind, address, 0) + 1 if kind else self._count("anonymous", address)
        self._require(count, settings.ANONYMOUS_REQUESTS_PER_MINUTE, kind or "requests without a key")

    def note(self, scope: Any, address: str, status: int, headers: Headers) -> None:
        """Looks at an answer, and counts credentials that did not hold."""
        location = next((value for name, value in headers if name == b"location"), b"")
        path = location.partition(b"?")[0].decode("latin-1").removeprefix(settings.FORCE_SCRIPT_NAME or "")
        is_to_sign_in = path in SIGN_IN_PATHS
        is_refused = status == HTTPStatus.UNAUTHORIZED or (status == HTTPStatus.FOUND and is_to_sign_in)
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
            raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, "throttled", detail, retry_seconds=wait)


def address_of(scope: Any) -> str:
    """The client's address, as far as NUM_PROXIES says that X-Forwarded-For can be trusted; empty if none is known."""
    remote = scope["client"][0] if scope.get("client") else ""
    forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    headers = {"x-forwarded-for": ",".join(forwarded)} if forwarded else {}
    request = SimpleNamespace(META={"REMOTE_ADDR": remote}, headers=headers)
    return client_network(cast("HttpRequest", request)) or ""


def _credentials(scope: Any) -> str:
    """Which ones the request claims to have; empty: none."""
    cookie = f"{settings.SESSION_COOKIE_NAME}=".encode()
    for name, value in scope["headers"]:
        if name == b"authorization":
            return "wrong keys"
        if name == b"cookie" and cookie in value:
            return "sessions that ended"
    return ""


SHARE: Final = 4
"""One address may hold this part of it."""
RETRY_SECONDS: Final = 2


class Memory:
    """How much the bodies of requests that are being received or worked on may hold."""

    def __init__(self) -> None:
        self._held = 0
        self._of: Counter[str] = Counter()

    @contextmanager
    def share(self, address: str) -> Iterator[Callable[[int], None]]:
        """What it gives takes so many bytes more, until the block is left; it raises Refused (503)."""
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            largest = max(settings.DATA_UPLOAD_MAX_MEMORY_SIZE, settings.MAX_OTLP_REQUEST_BYTES)
            most = max(settings.MAX_HELD_BYTES, largest)
            if self._held + count > most or self._of[address] + count > max(most // SHARE, largest):
                detail = "the bodies of other requests take all the memory that there is for them"
                raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "busy", detail, retry_seconds=RETRY_SECONDS)
            taken += count
            self._held += count
            self._of[address] += count

        try:
            yield take
        finally:
            self._held -= taken
            self._of[address] -= taken
            if not self._of[address]:
                del self._of[address]


def require_known_host(scope: Any) -> None:
    """Raises RequestRefused (400), before Django would log a traceback. A request without a name (HTTP/1.0) is for this
    machine."""
    names = [value for name, value in scope["headers"] if name == b"host"]
    if names and not (len(names) == 1 and _is_known(names[0], tuple(settings.ALLOWED_HOSTS))):
        host = b",".join(names)[:100].decode("latin-1")
        log.warning("a request for the host %r was refused: it is not in ALLOWED_HOSTS", host)
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "unknown-host", f"this site does not answer to the host {host!r}")


@lru_cache(256)
def _is_known(name: bytes, allowed: tuple[str, ...]) -> bool:
    domain, _ = split_domain_port(name.decode("latin-1"))
    return bool(domain) and validate_host(domain, allowed)
