"""Tools of MCP servers (Model Context Protocol). ``tool`` and what it imports need the official package, ``mcp``."""

from __future__ import annotations

from rl.environments.tools.mcp.settings import McpServer, servers_of

__all__ = ["McpServer", "servers_of"]
