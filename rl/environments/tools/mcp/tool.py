"""One of its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from mcp.types import Tool

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.environments.tools.base import BaseTool, ToolFailed
from rl.environments.tools.mcp.connection import connection_to
from rl.environments.tools.mcp.content import LONGEST_ERROR, text_of
from rl.environments.tools.mcp.settings import McpServer
from rl.environments.tools.web_search.backend import plain

LONGEST_DESCRIPTION = 1000
"""Characters of what a tool says of itself."""
LARGEST_SCHEMA = 8000
"""Characters of its parameters as JSON."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class McpTool(BaseTool):
    def __init__(self, name: str, server: McpServer, tool: Tool) -> None:
        """``name`` is the agent's word for it. Raises UsageError for a schema that is too large."""
        self.name, self._server, self._tool = name, server, tool.name
        self.schema = {
            "type": "function",
            "function": {
                "name": name,
                "description": plain(tool.description or tool.title or "", LONGEST_DESCRIPTION),
                "parameters": _parameters(server, tool),
            },
        }
        self.seconds = server.start_timeout + server.timeout + 10  # the connection's own limits come first

    def run(self, /, **arguments: Any) -> str:
        try:
            result = connection_to(self._server).call(self._tool, arguments)
        except (RuntimeError, ValueError) as error:
            raise ToolFailed(f"{self.name} gave an answer that breaks its own promise: {str(error)[:300]}") from None
        text = text_of(result)
        if result.is_error:
            raise ToolFailed(text[:LONGEST_ERROR] or f"{self.name} failed")
        return text or "(no output)"


def mcp_tools(servers: Sequence[McpServer], taken_names: Iterable[str] = ()) -> list[BaseTool]:
    """Starts the servers, or uses those that run. Raises UsageError when one cannot be used, has no tools, or has one
    whose name is in ``taken_names`` or cannot be an agent's word."""
    owners = dict.fromkeys(taken_names, "the environment")
    tools: list[BaseTool] = []
    for server in servers:
        for tool in _choose_tools(server, connection_to(server).tools()):
            name = f"{server.name}_{tool.name}" if server.prefix else tool.name
            _check_name(name, server, owners)
            owners[name] = f"the MCP server {server.name}"
            tools.append(McpTool(name, server, tool))
    return tools


def _choose_tools(server: McpServer, tools: Sequence[Tool]) -> list[Tool]:
    by_name = {tool.name: tool for tool in tools}
    if not by_name:
        raise UsageError(f"the MCP server {server.name} has no tools")
    for name in server.tools or ():
        require_known("tool", name, by_name, section=server.where)
    return [by_name[name] for name in dict.fromkeys(server.tools or by_name)]


def _check_name(name: str, server: McpServer, owners: dict[str, str]) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"the MCP server {server.name} has a tool {name[:100]!r}: a name has letters, digits, _ and -, at most 64; "
            f"leave it out by naming the others in {server.where}.tools"
        )
    if name in owners:
        way = "rename the server" if server.prefix else f"set {server.where}.prefix to true"
        raise UsageError(f"{owners[name]} and the MCP server {server.name} both have a tool {name}: {way}")


def _parameters(server: McpServer, tool: Tool) -> dict[str, Any]:
    shape = {"type": "object", "properties": {}, "required": [], **tool.input_schema}
    if (size := len(json.dumps(shape))) > LARGEST_SCHEMA:
        raise UsageError(
            f"the parameters of {tool.name} of the MCP server {server.name} are described in {size} characters, and "
            f"{LARGEST_SCHEMA} are allowed: leave it out by naming the others in {server.where}.tools"
        )
    return shape
