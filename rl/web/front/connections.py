"""Connections that cost a stranger more than they cost us: uvicorn's protocol with a deadline and limits for heads.

uvicorn waits for the head of a request as long as it takes, and takes it however long it is."""

import asyncio
import socket
from collections import Counter
from typing import Any, ClassVar, Final

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rl.web.client_address import network

MOST_HEAD_BYTES: Final = 65_536


class Connection(HttpToolsProtocol):
    of_address: ClassVar[Counter[str]] = Counter()
    """Open connections of this process by the address that they come from."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._address = ""
        self._head_deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection, option = transport.get_extra_info("socket"), getattr(socket, "TCP_USER_TIMEOUT", None)
        if option is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            # Linux ends a connection whose other side takes nothing of an answer for REQUEST_TIMEOUT.
            connection.setsockopt(socket.IPPROTO_TCP, option, settings.REQUEST_TIMEOUT * 1000)
        self._address = network(self.client[0]) or "" if self.client else ""
        self.of_address[self._address] += 1
        if self._is_too_many():
            self._refuse(b"503 Service Unavailable")
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._have_head()
        self.of_address[self._address] -= 1
        if not self.of_address[self._address]:
            del self.of_address[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_deadline is None and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        super().data_received(data)
        if self._head_deadline is not None and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
                self._refuse(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what follows a chunked body are trailers, which no proxy looks at
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._have_head()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._head_deadline = self.loop.call_later(settings.HEADER_TIMEOUT, self.transport.close)

    def _have_head(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _is_too_many(self) -> bool:
        """Where all connections are taken, one that is idle makes room."""
        is_proxy = bool(settings.REST_FRAMEWORK["NUM_PROXIES"])
        if not is_proxy and self.of_address[self._address] > settings.MAX_CONNECTIONS_PER_ADDRESS:
            return True
        if len(self.connections) <= settings.MAX_CONNECTIONS:
            return False
        idle = next((peer for peer in self.connections if peer.timeout_keep_alive_task is not None), None)  # type: ignore[union-attr]
        if idle is not None:
            idle.transport.close()
        return idle is None

    def _refuse(self, status: bytes) -> None:
        self.transport.write(b"HTTP/1.1 %s\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % status)
        self.transport.close()
