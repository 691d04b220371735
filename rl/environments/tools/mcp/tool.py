"""Tools of MCP servers, and connections to these: one to each for the whole process, whoever calls, held by a thread."""

import asyncio
import json
import logging
import os
import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing.util import Finalize
from threading import Lock, Thread
from typing import Any, TypeVar

import anyio
from mcp import Client, MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.environments.tools.mcp.session import FORGOTTEN, NotConnected, Session
from rl.environments.tools.mcp.settings import McpServer
from rl.environments.tools.registry import BaseTool, ToolFailed, cut
from rl.environments.tools.web_search.backend import plain

log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


class McpConnection:
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
                for _ in range(100):
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
        self._by_server: dict[str, McpConnection] = {}

    def to(self, server: McpServer) -> McpConnection:
        """The process's only one to a server of these settings."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                Thread(target=_run, args=(self._loop,), name="mcp", daemon=True).start()
                # Not atexit: a forked child of multiprocessing leaves without it.
                Finalize(None, close_connections, exitpriority=100)
            key = json.dumps(asdict(replace(server, tools=None, prefix=False)), sort_keys=True)
            if key not in self._by_server:
                self._by_server[key] = McpConnection(server, self._loop)
            return self._by_server[key]

    def close(self) -> None:
        with self._lock:
            loop, connections = self._loop, list(self._by_server.values())
            self._loop, self._by_server = None, {}
        if loop is not None:
            with suppress(TimeoutError):  # a server that does not go is killed before, by the package
                asyncio.run_coroutine_threadsafe(_close(connections), loop).result(15.0)
            loop.call_soon_threadsafe(loop.stop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _close(connections: list[McpConnection]) -> None:
    await asyncio.gather(*(connection.close() for connection in connections))


_connections = _Connections()


def close_connections() -> None:
    """Ends the servers that were started. Done by itself when the process ends; the next use starts them again."""
    _connections.close()


def _forget() -> None:
    """A forked child has neither the thread nor a right to the servers of its parent."""
    global _connections
    _connections = _Connections()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

LARGEST_SCHEMA = 8000
"""Characters of its parameters as JSON."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONGEST_RESULT = 16_000
"""Characters that are kept of one result; the agent reads fewer."""


class McpTool(BaseTool):
    def __init__(self, name: str, server: McpServer, tool: Tool) -> None:
        """``name`` is the agent's word for it. Raises UsageError for a schema that is too large."""
        self.name, self._server, self._tool = name, server, tool.name
        shape = {"type": "object", "properties": {}, "required": [], **tool.input_schema}
        if (size := len(json.dumps(shape))) > LARGEST_SCHEMA:
            raise UsageError(
                f"the parameters of {tool.name} of the MCP server {server.name} are described in {size} characters, and "
                f"{LARGEST_SCHEMA} are allowed: leave it out by naming the others in {server.where}.tools"
            )
        self.schema = {
            "type": "function",
            "function": {
                "name": name,
                "description": plain(tool.description or tool.title or "", 1000),
                "parameters": shape,
            },
        }
        self.seconds = server.start_timeout + server.timeout + 10  # the connection's own limits come first

    def run(self, /, **arguments: Any) -> str:
        try:
            result = _connections.to(self._server).call(self._tool, arguments)
        except (RuntimeError, ValueError) as error:
            raise ToolFailed(f"{self.name} gave an answer that breaks its own promise: {str(error)[:300]}") from None
        text = text_of(result)
        if result.is_error:
            raise ToolFailed(text[:1000] or f"{self.name} failed")
        return text or "(no output)"


def mcp_tools(servers: Sequence[McpServer], taken_names: Iterable[str] = ()) -> list[BaseTool]:
    """Starts the servers, or uses those that run. Raises UsageError when one cannot be used, has no tools, or has one
    whose name is in ``taken_names`` or cannot be an agent's word."""
    owners = dict.fromkeys(taken_names, "the environment")
    tools: list[BaseTool] = []
    for server in servers:
        by_name = {tool.name: tool for tool in _connections.to(server).tools()}
        if not by_name:
            raise UsageError(f"the MCP server {server.name} has no tools")
        for name in server.tools or ():
            require_known("tool", name, by_name, section=server.where)
        for own_name in dict.fromkeys(server.tools or by_name):
            tool = by_name[own_name]
            name = f"{server.name}_{tool.name}" if server.prefix else tool.name
            if not _NAME.fullmatch(name):
                raise UsageError(
                    f"the MCP server {server.name} has a tool {name[:100]!r}: a name has letters, digits, _ and -, at most "
                    f"64; leave it out by naming the others in {server.where}.tools"
                )
            if name in owners:
                way = "rename the server" if server.prefix else f"set {server.where}.prefix to true"
                raise UsageError(f"{owners[name]} and the MCP server {server.name} both have a tool {name}: {way}")
            owners[name] = f"the MCP server {server.name}"
            tools.append(McpTool(name, server, tool))
    return tools


def text_of(result: CallToolResult) -> str:
    """What an agent can read of it."""
    parts = [text for block in result.content if (text := _render_block(block))]
    has_text = any(isinstance(block, TextContent | EmbeddedResource) for block in result.content)
    if result.structured_content is not None and not has_text:
        parts.append(json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":")))
    return cut("\n".join(parts), LONGEST_RESULT)


def _render_block(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return f"[{block.type}, {_size(block.data)}, not shown]"
        case ResourceLink():
            return f"[{block.name}: {block.uri}]"
        case EmbeddedResource():
            resource = block.resource
            if isinstance(resource, TextResourceContents):
                return resource.text
            return f"[{resource.uri}, {_size(resource.blob)}, not shown]"


def _size(base64: str) -> str:
    return f"{max(1, round(len(base64) * 3 / 4 / 1000))} kB"
