"""Tools that an agent may call."""

from __future__ import annotations

from rl.environments.tools.base import BaseTool, ToolFailed
from rl.environments.tools.registry import ToolRegistry

__all__ = ["BaseTool", "ToolFailed", "ToolRegistry"]
