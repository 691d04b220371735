"""Tools that an agent may call."""

from __future__ import annotations

from rl.environments.tools.registry import BaseTool, ToolFailed, ToolRegistry

__all__ = ["BaseTool", "ToolFailed", "ToolRegistry"]
