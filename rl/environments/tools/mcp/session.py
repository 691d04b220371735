"""One conversation with it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage
from mcp.types import CONNECTION_CLOSED

from rl.environments.tools.mcp.settings import McpServer
from rl.environments.tools.mcp.transports import transport_to

_FORGOTTEN = "Session terminated"
"""What the package answers for HTTP 404: the server was started anew and does not know us."""


class NotConnected(Exception):
    """Says why, in a sentence about the server."""


class Session:
    """From the start of a server to its end, in a task of the running loop."""

    def __init__(self, server: McpServer) -> None:
        self._server, self._transport = server, transport_to(server)
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

    def is_lost(self, error: MCPError) -> bool:
        """Whether a call failed because there is no connection any more."""
        return error.code == CONNECTION_CLOSED or error.message == _FORGOTTEN

    async def end(self, error: MCPError) -> tuple[bool, str]:
        """Whether the call that was lost cannot have reached the server, and why the connection ended."""
        await self.close()
        unheard = error.message == _FORGOTTEN or isinstance(self._error, httpx2.ConnectError)
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
        except Exception as error:
            self._error = _innermost(error)
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


class _Watched:
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


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
