"""Checkpoints of version 2.0, which ToolBoxV2 writes since January 2026: ``sessions_data`` has the sessions one level
deeper, their messages have no time, and ``agent_config`` knows the system prompt. Only what is named here is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from rl.from_systems.toolbox.checkpoints.conversations import conversations
from rl.from_systems.toolbox.checkpoints.lenient import content, excerpt, fields_of, items_of, number, time_text

VERSION = "2.0"
MOST_SYSTEM, MOST_TOOLS, MOST_SCHEMA = 50_000, 200, 5_000
"""Characters of a system prompt, tools, and characters of a tool's schema."""
TOTALS = {
    "total_tokens_in": "total_tokens_in",
    "total_tokens_out": "total_tokens_out",
    "total_cost": "total_cost",
    "llm_calls_count": "total_llm_calls",
}
"""A trace's column, and its name in the statistics of the agent."""


def is_version_2(checkpoint: dict[str, Any]) -> bool:
    return checkpoint.get("version") == VERSION or "sessions_data" in checkpoint


def extract_version_2(checkpoint: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """As ``rl.from_systems.toolbox.checkpoints.extraction.extract``; tasks and reasoning are not in it."""
    sessions = _sessions(checkpoint)
    about = {
        "agent": excerpt(checkpoint.get("agent_name"), 200),
        "timestamp": time_text(checkpoint.get("timestamp")),
        "totals": {} if any(map(_is_full, sessions.values())) else _totals(checkpoint),
        "tasks": [],
        "reasoning_steps": [],
        "system_prompt": content(fields_of(checkpoint.get("agent_config")).get("system_message"))[:MOST_SYSTEM],
        "tools": list(_tools(checkpoint)),
    }
    by_session = (conversations(name[:200], session.get("chat_history")) for name, session in sessions.items())
    return about, chain.from_iterable(by_session)


def _sessions(checkpoint: dict[str, Any]) -> dict[str, dict[str, Any]]:
    sessions = fields_of(fields_of(checkpoint.get("sessions_data")).get("sessions"))
    return {name: fields_of(session) for name, session in sessions.items() if not name.startswith("$")}


def _is_full(session: dict[str, Any]) -> bool:
    """Older messages were dropped, or are about to be: nobody knows on how many conversations the totals were spent."""
    return 0 < number(session.get("max_history")) <= len(items_of(session.get("chat_history")))


def _totals(checkpoint: dict[str, Any]) -> dict[str, float]:
    statistics = fields_of(checkpoint.get("statistics"))
    return {column: number(statistics.get(name)) for column, name in TOTALS.items()}


def _tools(checkpoint: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """In OpenAI's form."""
    tools = fields_of(fields_of(checkpoint.get("tool_registry_data")).get("tools"))
    named = ((name, fields_of(tool)) for name, tool in tools.items() if not name.startswith("$"))
    for name, tool in islice(named, MOST_TOOLS):
        function = fields_of(fields_of(tool.get("litellm_schema")).get("function"))
        described = {"name": name[:200], "description": excerpt(tool.get("description"), 1_000)}
        fits = function and len(excerpt(function, MOST_SCHEMA + 1)) <= MOST_SCHEMA
        yield {"type": "function", "function": function if fits else described}
