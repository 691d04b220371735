"""One of its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from mcp.types import (
    AudioContent,
    BlobResourceContents,
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
from rl.environments.tools.base import BaseTool, ToolFailed
from rl.environments.tools.mcp.connection import connection_to
from rl.environments.tools.mcp.settings import McpServer
from rl.environments.tools.web_search.backend import plain

LONGEST_DESCRIPTION = 1000
"""Characters of what a tool says of itself."""
LARGEST_SCHEMA = 8000
"""Characters of its parameters as JSON."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONGEST_RESULT = 16_000
"""Characters that are kept of one result; the agent reads fewer."""


LONGEST_ERROR = 1000


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


def text_of(result: CallToolResult) -> str:
    """What an agent can read of it."""
    parts = [text for block in result.content if (text := _render_block(block))]
    has_text = any(isinstance(block, TextContent | EmbeddedResource) for block in result.content)
    if result.structured_content is not None and not has_text:
        parts.append(json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":")))
    text = "\n".join(parts)
    left_out = len(text) - LONGEST_RESULT
    return text if left_out <= 0 else f"{text[:LONGEST_RESULT]}… ({left_out} more characters)"


def _render_block(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return f"[{block.type}, {_size(block.data)}, not shown]"
        case ResourceLink():
            return f"[{block.name}: {block.uri}]"
        case EmbeddedResource():
            return _resource(block.resource)


def _resource(resource: TextResourceContents | BlobResourceContents) -> str:
    if isinstance(resource, TextResourceContents):
        return resource.text
    return f"[{resource.uri}, {_size(resource.blob)}, not shown]"


def _size(base64: str) -> str:
    return f"{max(1, round(len(base64) * 3 / 4 / 1000))} kB"
