"""The tools that an agent was offered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from typing import Any

from rl.collect.traces.records import tool_calls
from rl.dataset_builder.read.runs import CannotBeRead, called_with
from rl.environments.tasks.replay_fields import is_schema
from rl.environments.tools.recorded import schemas_of
from rl.models import Agent

NEWEST = 500
"""Traces with tool calls whose tools are known as the agent's."""
Tools = tuple[dict[str, Any], ...]


class OfferedTools:
    """By the details of an answer, else those that the agent has called lately: a prompt that offers no tools would teach
    that they are called all the same, and one that offers what was called alone would give away what to call."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def __call__(self, details: str | None) -> Tools:
        """``details``: the column, as JSON text."""
        return self.known_by(json.loads(details) if details and '"tools"' in details else {})

    def known_by(self, details: Mapping[str, Any]) -> Tools:
        return declared_tools(details.get("tools")) or self._of_agent

    @cached_property
    def _of_agent(self) -> Tools:
        traces = self._agent.traces.exclude(tool_calls=[]).order_by("-created_at")
        newest = list(traces.values_list("tool_calls", "details")[:NEWEST])
        declared = {
            tool["function"]["name"]: tool
            for _, details in reversed(newest)
            for tool in declared_tools(details.get("tools") if isinstance(details, dict) else None)
        }
        calls = chain.from_iterable(_readable(stored) for stored, _ in newest)
        inferred = {tool["function"]["name"]: tool for tool in schemas_of(calls)}
        tools = {**inferred, **declared}
        return tuple(tools[name] for name in sorted(tools))


def declared_tools(value: object) -> Tools:
    """Empty for what is not a list of schemas."""
    return tuple(value) if isinstance(value, list) and all(map(is_schema, value)) else ()


def _readable(stored: object) -> list[dict[str, Any]]:
    calls = []
    for call in tool_calls(stored):
        try:
            arguments = called_with(call)
        except CannotBeRead:
            continue
        calls.append(
            {"tool_name": call.tool_name, "arguments": arguments, "success": call.success, "error": call.error}
        )
    return calls
