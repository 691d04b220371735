"""One conversation with it."""

import asyncio
import logging
import math
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from threading import Thread
from typing import Any, Self

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client._transport import ReadStream, TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import CONNECTION_CLOSED

from rl.environments.tools.mcp.settings import McpServer

FORGOTTEN = "Session terminated"
"""What the package answers for HTTP 404: the server was started anew and does not know us."""
READ_SECONDS = 300.0
"""Without a byte."""

for _name, _level in (("mcp", logging.CRITICAL), ("client", logging.CRITICAL), ("httpx2", logging.WARNING)):
    logging.getLogger(_name).setLevel(_level)  # a line for every request, a traceback for all that is not a message


class NotConnected(Exception):
    """Says why, in a sentence about the server."""


class Session:
    """From the start of a server to its end, in a task of the running loop."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._transport = Pipes(server) if server.command else Http(server)
        self._over = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._error: BaseException | None = None
        self._stray = False
        self._limit = anyio.CancelScope()
        self._task = asyncio.create_task(self._live())

    @property
    def ended(self) -> bool:
        return self._over.is_set() or self._task.done()

    async def client(self) -> Client:
        """Raises NotConnected."""
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        self._over.set()
        if not self._ready.done():
            self._limit.cancel()
        await asyncio.wait((self._task,))

    async def end(self, error: MCPError) -> tuple[bool, str]:
        """Whether the call that was lost cannot have reached the server, and why the connection ended."""
        await self.close()
        unheard = error.message == FORGOTTEN or isinstance(self._error, httpx2.ConnectError)
        return unheard, await self._reason()

    async def _live(self) -> None:
        try:
            self._limit.deadline = anyio.current_time() + self._server.start_timeout
            with self._limit:
                async with Client(self._open_streams(), cache=None) as client:
                    self._limit.deadline = math.inf
                    self._ready.set_result(client)
                    await self._over.wait()
            if self._limit.cancelled_caught:
                raise TimeoutError
        except Exception as error:  # noqa: BLE001  told to whoever waits
            self._error = error
            while isinstance(self._error, BaseExceptionGroup):
                self._error = self._error.exceptions[0]
        self._over.set()
        if not self._ready.done():
            self._ready.set_exception(NotConnected(await self._reason()))
            self._ready.exception()  # the one who waited may be gone

    @asynccontextmanager
    async def _open_streams(self) -> AsyncIterator[TransportStreams]:
        async with self._transport.open() as (read, write):
            yield _Watched(read, self._over, self._notice), write

    def _notice(self, message: object) -> None:
        self._stray = self._stray or isinstance(message, Exception)

    async def _reason(self) -> str:
        stray = "it writes to its standard output what is not an MCP message" if self._stray else ""
        parts = (_describe_error(self._error, self._server), await self._transport.hint(), stray)
        return self._server.redact("; ".join(part for part in parts if part))


class _Watched(AbstractAsyncContextManager["_Watched", None]):
    """A stream of messages that tells when it is at its end, and of each message before it is dispatched."""

    def __init__(
        self,
        stream: ReadStream[SessionMessage | Exception],
        over: asyncio.Event,
        notice: Callable[[SessionMessage | Exception], None],
    ) -> None:
        self._stream, self._over, self._notice = stream, over, notice

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            message = await self._stream.receive()
        except anyio.EndOfStream:
            self._over.set()
            raise
        self._notice(message)
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _describe_error(error: BaseException | None, server: McpServer) -> str:
    if error is None or (isinstance(error, MCPError) and error.code == CONNECTION_CLOSED):
        return "it ended"
    if isinstance(error, TimeoutError):
        return f"it was not ready within {server.start_timeout:g} seconds"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, httpx2.TransportError):
        return f"it cannot be reached: {str(error)[:500] or type(error).__name__}"
    return str(error)[:500] or type(error).__name__


class Pipes:
    """How messages reach a program that is started here, and come back. It gets PATH, HOME, USER, LOGNAME, SHELL, TERM and
    what the settings name."""

    def __init__(self, server: McpServer) -> None:
        self._server, self._tail = server, Tail()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        """Raises UsageError for a secret that is not set, OSError for a program that cannot be started."""
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
        """What it saw that explains a failure; may be empty."""
        line = await self._tail.last_line()
        return f"its last words: {line}" if line else ""


class Http:
    """How they reach an address. Redirects are followed within its own origin only (``streamable_http_client``); proxies are
    not used."""

    def __init__(self, server: McpServer) -> None:
        self._server, self._status = server, 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        client = httpx2.AsyncClient(
            headers=self._server.headers(),
            timeout=httpx2.Timeout(30.0, read=max(READ_SECONDS, 2 * self._server.timeout)),
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


_KEPT = 4096


class Tail:
    """A file for a program's error output, of which the last kilobytes are kept, however much it writes."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self.file = os.fdopen(write, "w")
        self._kept = b""
        self._thread = Thread(target=self._drain, args=(read,), name="mcp-stderr", daemon=True)
        self._thread.start()

    async def last_line(self) -> str:
        """The last line of a program that has ended; empty when it wrote none."""
        for _ in range(50):  # half a second, for children of it that live on and hold the pipe
            if not self._thread.is_alive():
                break
            await asyncio.sleep(0.01)
        lines = [text for text in self._kept.decode(errors="replace").splitlines() if text.strip()]
        line = "".join(letter if letter.isprintable() else " " for letter in lines[-1]) if lines else ""
        return line.strip()[:300]

    def _drain(self, read: int) -> None:
        with os.fdopen(read, "rb", buffering=0) as pipe:
            while chunk := pipe.read(_KEPT):
                self._kept = (self._kept + chunk)[-_KEPT:]
