"""Tools that an agent may call."""

# ruff: noqa: F401  for others to import from here
from rl.environments.tools.registry import BaseTool, ToolFailed, ToolRegistry
