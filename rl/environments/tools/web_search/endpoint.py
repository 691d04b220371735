"""One HTTP exchange with the configured host, and no other.

Redirects are not followed and proxies not used: the key goes to that host or nowhere.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from rl.base.errors import UsageError

LARGEST_ANSWER = 1 << 20
"""Bytes."""
_LOCAL = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:]*:[0-9a-f:.]*")
_PATH = re.compile(r"[!-~]*")


class Answer(NamedTuple):
    status: int
    """0: there was none, and ``error`` says why."""
    body: bytes = b""
    """At most LARGEST_ANSWER + 1 bytes."""
    retry_after: str = ""
    """The header; empty: none."""
    error: OSError | HTTPException | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    secure: bool
    host: str
    port: int | None
    path: str

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Raises UsageError for all but plain https addresses, and http ones of this machine."""
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname or ""
        except ValueError as error:
            raise UsageError(f"endpoint is not usable: {error}") from None
        if parts.username is not None or parts.query or parts.fragment:
            raise UsageError("endpoint must have no user name, '?' or '#': parameters belong in default_params")
        if not _HOST.fullmatch(host) or not _PATH.fullmatch(parts.path):
            raise UsageError(f"endpoint must look like https://search.example/search, not {url[:100]!r}")
        if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOCAL):
            raise UsageError(f"endpoint must begin with https:// (http:// only for this machine), not {url[:100]!r}")
        return cls(parts.scheme == "https", host, port, parts.path or "/")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}{f':{self.port}' if self.port else ''}{self.path}"

    def exchange(self, method: str, params: Mapping[str, Any], headers: Mapping[str, str], timeout: float) -> Answer:
        """``timeout``: seconds to connect, and again for the whole answer."""
        kind = HTTPSConnection if self.secure else HTTPConnection
        connection = kind(self.host, self.port, timeout=timeout)
        try:
            connection.connect()
            with _cut_off_after(timeout, connection.sock):
                connection.request(method, *_message(method, self.path, params, headers))
                response = connection.getresponse()
                body = response.read(LARGEST_ANSWER + 1)
                return Answer(response.status, body, response.headers.get("Retry-After") or "")
        except (OSError, HTTPException) as error:
            return Answer(0, error=error)
        finally:
            connection.close()


def _message(
    method: str, path: str, params: Mapping[str, Any], headers: Mapping[str, str]
) -> tuple[str, bytes | None, dict[str, str]]:
    """Path, body and headers."""
    all_headers = {"Accept": "application/json", "User-Agent": "ratchet", **headers}
    if method == "POST":
        return path, json.dumps(params).encode(), {**all_headers, "Content-Type": "application/json"}
    words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in params.items()}
    return f"{path}?{urlencode(words, doseq=True)}", None, all_headers


@contextmanager
def _cut_off_after(seconds: float, connected: socket.socket) -> Iterator[None]:
    """The timeout of a socket begins anew with every byte; this one does not. Raises TimeoutError."""
    expired = threading.Event()

    def cut_off() -> None:
        expired.set()
        with suppress(OSError):
            socket.socket.shutdown(connected, socket.SHUT_RDWR)  # not that of TLS, which another thread is using

    timer = threading.Timer(seconds, cut_off)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, HTTPException):
        if not expired.is_set():
            raise
    finally:
        timer.cancel()
    if expired.is_set():
        raise TimeoutError("the answer took too long")
