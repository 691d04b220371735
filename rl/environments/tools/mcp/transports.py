"""How messages reach a server and come back: over the pipes of a program, or by HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from rl.environments.program import process
from rl.environments.tools.mcp.settings import McpServer

CONNECT_SECONDS = 30.0
READ_SECONDS = 300.0
"""Without a byte."""

for _name, _level in (("mcp", logging.CRITICAL), ("client", logging.CRITICAL), ("httpx2", logging.WARNING)):
    logging.getLogger(_name).setLevel(_level)  # a line for every request, a traceback for all that is not a message


class Transport(ABC):
    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[TransportStreams]:
        """Raises UsageError for a secret that is not set, OSError for a program that cannot be started."""

    @abstractmethod
    async def hint(self) -> str:
        """What it saw that explains a failure; may be empty."""


class Pipes(Transport):
    """A program that is started here. It gets PATH, HOME, USER, LOGNAME, SHELL, TERM and what the settings name."""

    def __init__(self, server: McpServer) -> None:
        self._server, self._tail = server, Tail()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        program, *arguments = self._server.command
        with self._tail.file:
            parameters = StdioServerParameters(
                command=program,
                args=arguments,
                env=self._server.environment(),
                cwd=self._server.cwd or None,
                encoding_error_handler="replace",
            )
            async with stdio_client(parameters, errlog=self._tail.file) as streams:
                self._tail.file.close()  # else it would not end with the program
                yield streams

    async def hint(self) -> str:
        line = await self._tail.last_line()
        return f"its last words: {line}" if line else ""


class Http(Transport):
    """Redirects are followed within the address's own origin only (``streamable_http_client``); proxies are not used."""

    def __init__(self, server: McpServer) -> None:
        self._server, self._status = server, 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        client = httpx2.AsyncClient(
            headers=self._server.headers(),
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=max(READ_SECONDS, 2 * self._server.timeout)),
            verify=ssl.create_default_context(),
            trust_env=False,
            event_hooks={"response": [self._note]},
        )
        async with client, streamable_http_client(self._server.url, http_client=client) as streams:
            yield streams

    async def hint(self) -> str:
        return f"HTTP {self._status}" if self._status >= 400 else ""

    async def _note(self, response: httpx2.Response) -> None:
        self._status = response.status_code


def transport_to(server: McpServer) -> Transport:
    return Pipes(server) if server.command else Http(server)


_LONGEST_LINE = 300


class Tail:
    """A file for a program's error output, of which the end is kept, however much it writes."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self.file = os.fdopen(write, "w")
        self._kept = process.Tail(os.fdopen(read, "rb", buffering=0))

    async def last_line(self) -> str:
        """The last line of a program that has ended; empty when it wrote none."""
        lines = [text for text in (await asyncio.to_thread(self._kept.text)).splitlines() if text.strip()]
        line = "".join(letter if letter.isprintable() else " " for letter in lines[-1]) if lines else ""
        return line.strip()[:_LONGEST_LINE]
