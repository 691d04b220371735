"""Connections to servers: one to each for the whole process, whoever calls, held by a thread of their own."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing.util import Finalize
from threading import Lock, Thread
from typing import Any, TypeVar

import anyio
from mcp import Client, MCPError
from mcp.types import CONNECTION_CLOSED, CallToolResult, Tool

from rl.base.errors import UsageError
from rl.environments.tools.mcp.session import FORGOTTEN, NotConnected, Session
from rl.environments.tools.mcp.settings import McpServer
from rl.environments.tools.registry import ToolFailed

MOST_PAGES = 100
CLOSE_SECONDS = 15.0
"""A server that does not go is killed before, by the package."""
log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


class Connection:
    """Opened on first use, and anew by the first call after it was lost. The methods block; any thread may call them."""

    def __init__(self, server: McpServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server, self._loop = server, loop
        self._session: Session | None = None
        self._tools: list[Tool] | None = None

    def tools(self) -> list[Tool]:
        """The server's tools, as they were at first. Raises UsageError."""
        if self._tools is None:
            try:
                self._tools = self._wait(self._list())
            except NotConnected as error:
                raise UsageError(f"the MCP server {self._server.name} cannot be used: {error}") from None
        return self._tools

    def call(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Raises ToolFailed. A call that may have reached the server is never sent twice."""
        try:
            return self._wait(self._call(tool, dict(arguments)))
        except NotConnected as error:
            raise ToolFailed(f"the server {self._server.name} has ended and cannot be used again: {error}") from None

    async def close(self) -> None:
        """To be called in the loop's thread."""
        if self._session is not None:
            await self._session.close()

    def _wait(self, coroutine: Coroutine[Any, Any, _Answer]) -> _Answer:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    async def _open(self) -> tuple[Session, Client]:
        if self._session is None or self._session.ended:
            if self._session is not None:
                log.warning("the MCP server %s was lost and is used anew", self._server.name)
            self._session = Session(self._server)
        session = self._session
        return session, await session.client()

    async def _list(self) -> list[Tool]:
        _, client = await self._open()
        tools: list[Tool] = []
        cursor: str | None = None
        try:
            with anyio.fail_after(self._server.start_timeout):
                for _ in range(MOST_PAGES):
                    page = await client.list_tools(cursor=cursor)
                    tools += page.tools
                    cursor = page.next_cursor
                    if cursor is None:
                        return tools
        except TimeoutError:
            raise NotConnected("it does not list its tools in time") from None
        except (MCPError, ValueError) as error:
            raise NotConnected(f"it does not list its tools: {str(error)[:300]}") from None
        raise NotConnected("its list of tools has no end")

    async def _call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        reason = ""
        for _ in range(2):
            session, client = await self._open()
            try:
                with anyio.fail_after(self._server.timeout):
                    return await client.call_tool(tool, arguments)
            except TimeoutError:
                raise ToolFailed(f"{tool} did not answer within {self._server.timeout:g} seconds", True) from None
            except MCPError as error:
                if error.code != CONNECTION_CLOSED and error.message != FORGOTTEN:  # there still is a connection
                    raise ToolFailed(error.message[:500]) from None
                unheard, reason = await session.end(error)
            if not unheard:
                break
        raise ToolFailed(f"the server {self._server.name} was lost during the call: {reason}")


class _Connections:
    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._by_server: dict[str, Connection] = {}

    def to(self, server: McpServer) -> Connection:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                Thread(target=_run, args=(self._loop,), name="mcp", daemon=True).start()
                # Not atexit: a forked child of multiprocessing leaves without it.
                Finalize(None, close_connections, exitpriority=100)
            key = json.dumps(asdict(replace(server, tools=None, prefix=False)), sort_keys=True)
            if key not in self._by_server:
                self._by_server[key] = Connection(server, self._loop)
            return self._by_server[key]

    def close(self) -> None:
        with self._lock:
            loop, connections = self._loop, list(self._by_server.values())
            self._loop, self._by_server = None, {}
        if loop is not None:
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(_close(connections), loop).result(CLOSE_SECONDS)
            loop.call_soon_threadsafe(loop.stop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _close(connections: list[Connection]) -> None:
    await asyncio.gather(*(connection.close() for connection in connections))


_connections = _Connections()


def connection_to(server: McpServer) -> Connection:
    """The process's only one to a server of these settings."""
    return _connections.to(server)


def close_connections() -> None:
    """Ends the servers that were started. Done by itself when the process ends; the next use starts them again."""
    _connections.close()


def _forget() -> None:
    """A forked child has neither the thread nor a right to the servers of its parent."""
    global _connections
    _connections = _Connections()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
