"""One POST, to an address that was checked, within a time that nothing prolongs. No redirect is followed, no proxy used, and
no answer read beyond its status."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore

from rl.operations.webhooks.addresses import Refused, resolve

SECONDS: Final = 15.0
"""Longest time that the whole call to a webhook may take."""
MOST_BYTES: Final = 256 * 1024
"""Size of a body, at most."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int | None
    """Status of HTTP; None where there was no answer, and ``error`` says why."""
    error: str = ""

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def post(url: str, body: bytes, headers: dict[str, str], *, allow_private: bool, seconds: float = SECONDS) -> Answer:
    """Never raises for what the network or the other side does."""
    if len(body) > MOST_BYTES:
        return Answer(None, f"the message has {len(body)} bytes; {MOST_BYTES} are sent at most")
    deadline = time.monotonic() + seconds
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        addresses = resolve(parts.hostname or "", port, allow_private=allow_private)
        with httpcore.ConnectionPool(
            ssl_context=ssl.create_default_context(), network_backend=_Pinned(addresses, deadline), retries=0
        ) as pool:
            all_headers = [("host", parts.netloc), ("content-length", str(len(body))), *headers.items()]
            with pool.stream("POST", url, headers=all_headers, content=body) as response:
                return Answer(response.status, "" if response.status < 300 else f"answered {response.status}")
    except Refused as error:
        return Answer(None, str(error))
    except (OSError, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, UnicodeError) as error:
        return Answer(None, f"{type(error).__name__}: {error}"[:500])


class _Pinned(httpcore.NetworkBackend):
    """Connects to the addresses that were checked, whatever the name means by now."""

    def __init__(self, addresses: list[str], deadline: float) -> None:
        self._addresses = addresses
        self._deadline = deadline
        self._real = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        last: Exception | None = None
        for address in self._addresses:
            try:
                stream = self._real.connect_tcp(
                    address, port, _seconds_left(self._deadline), local_address, socket_options
                )
                return _Limited(stream, self._deadline)
            except httpcore.ConnectError as error:  # the next one may answer
                last = error
        raise last or httpcore.ConnectError("no address")


class _Limited(httpcore.NetworkStream):
    """The timeout of a socket begins anew with every byte; this one does not."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _seconds_left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _seconds_left(self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Limited(
            self._stream.start_tls(ssl_context, server_hostname, _seconds_left(self._deadline)), self._deadline
        )

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _seconds_left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise httpcore.ReadTimeout("it took too long")
    return seconds
