"""Tools of MCP servers (Model Context Protocol). ``tool`` and what it imports need the official package, ``mcp``."""
