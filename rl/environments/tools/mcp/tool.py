"""One of its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from mcp.types import (
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
from rl.environments.tools.mcp.connection import connection_to
from rl.environments.tools.mcp.settings import McpServer
from rl.environments.tools.registry import BaseTool, ToolFailed, cut
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
                "description": plain(tool.description or tool.title or "", LONGEST_DESCRIPTION),
                "parameters": shape,
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
        by_name = {tool.name: tool for tool in connection_to(server).tools()}
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
