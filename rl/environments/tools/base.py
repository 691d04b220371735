"""BaseTool, ToolFailed."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from typing import Any


class ToolFailed(Exception):
    """What the agent is told when its call came to nothing; the episode goes on."""

    def __init__(self, reason: str, timed_out: bool = False) -> None:
        self.timed_out = timed_out
        super().__init__(reason)


class BaseTool(ABC):
    """A tool is a class with a ``name`` and a method ``run``, whose parameters have types. Its docstring says what the agent
    should know, with a section ``Args:`` for the parameters (Google's style)."""

    name: str
    run: Callable[..., str]
    """Raises ToolFailed."""
    aliases: tuple[str, ...] = ()
    """Other names that a call may use, where no tool has them."""
    schema: Mapping[str, Any] | None = None
    """The schema of a tool that brings its own, as ``schema_of`` makes it; None: it is read from ``run``."""
    seconds: float = 60.0
    """After which the agent is told that the tool did not answer. What hangs is left behind in its thread."""
