"""What a FlowAgent's checkpoint holds: its conversations, and what it says of the agent as a whole.

Version 2.0, which ToolBoxV2 writes since January 2026, is other: ``sessions_data`` has the sessions one level deeper, their
messages have no time, and ``agent_config`` knows the system prompt. Only what is named here is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from rl.base.slugs import printable
from rl.from_systems.toolbox.checkpoints.conversations import (
    content,
    conversations,
    excerpt,
    fields_of,
    items_of,
    number,
    scalar,
    time_text,
    word,
)
from rl.from_systems.toolbox.checkpoints.opcodes import Refused

MOST_REASONING, MOST_TASK_TEXT = 1_000, 500
"""Most characters that are kept of a reasoning step, and of a task's text."""
MOST_STEPS, MOST_TASKS = 1_000, 10_000
"""Most reasoning steps and tasks that are kept of one checkpoint."""
TOTALS = {
    "total_tokens_in": "total_tokens_in",
    "total_tokens_out": "total_tokens_out",
    "total_cost": "total_cost_accumulated",
    "llm_calls_count": "total_llm_calls",
}
"""A trace's column, and its name in the state of the agent."""
_PARTS = ("session_data", "conversation_history", "agent_state", "task_state", "variable_scopes")
VERSION = "2.0"
MOST_SYSTEM, MOST_TOOLS, MOST_SCHEMA = 50_000, 200, 5_000
"""Characters of a system prompt, tools, and characters of a tool's schema."""
TOTALS_OF_2 = {**TOTALS, "total_cost": "total_cost"}
"""The same in the statistics of the agent."""


def extract(root: Any) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """From plain data to ``{agent, timestamp, totals, tasks, reasoning_steps, system_prompt, tools}`` and the conversations,
    in the shape of trace files. Raises Refused for what is not a checkpoint."""
    checkpoint = fields_of(root)
    if checkpoint.get("version") == VERSION or "sessions_data" in checkpoint:
        return extract_version_2(checkpoint)
    if not any(part in checkpoint for part in _PARTS):
        kind = checkpoint.get("$class") or type(root).__name__
        raise Refused(f"holds {printable(excerpt(kind, 200))}, not a checkpoint of an agent")
    state = fields_of(checkpoint.get("agent_state"))
    about = {
        "agent": excerpt(fields_of(state.get("amd_data")).get("name"), 200),
        "timestamp": time_text(checkpoint.get("timestamp")),
        "totals": {column: number(state.get(name)) for column, name in TOTALS.items()},
        "tasks": list(_tasks(checkpoint.get("task_state"))),
        "reasoning_steps": list(_reasoning(checkpoint.get("variable_scopes"))),
        "system_prompt": "",
        "tools": [],
    }
    return about, _conversations(checkpoint)


def _conversations(checkpoint: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Conversations of all sessions; the agent's own history repeats one, and counts only where there is no session."""
    sessions = fields_of(checkpoint.get("session_data"))
    of_sessions = chain.from_iterable(
        conversations(name[:200], fields_of(session).get("history") if isinstance(session, dict) else session)
        for name, session in sessions.items()
        if not name.startswith("$")
    )
    first = next(of_sessions, None)
    if first is None:
        return conversations("", checkpoint.get("conversation_history"))
    return chain((first,), of_sessions)


def _tasks(states: Any) -> Iterator[dict[str, Any]]:
    for name, task in islice(fields_of(states).items(), MOST_TASKS):
        if isinstance(task, dict) and not name.startswith("$"):
            task = fields_of(task)
            yield {
                "task_id": name[:200],
                "status": word(task.get("status")),
                "type": excerpt(task.get("type"), 200),
                "description": excerpt(task.get("description"), MOST_TASK_TEXT),
                "result": excerpt(task.get("result"), MOST_TASK_TEXT),
                "error": excerpt(task.get("error"), MOST_TASK_TEXT),
                "created_at": time_text(task.get("created_at") or task.get("started_at")),
                "ended_at": time_text(task.get("completed_at")),
            }


def _reasoning(scopes: Any) -> Iterator[dict[str, Any]]:
    """Scopes are nested (``{"delegation": {"loop_1": …}}``) or flat (``{"delegation.loop_1": …}``)."""
    variables, stored = dict[str, Any](), fields_of(scopes)
    for scope in ("delegation", "reasoning"):
        variables |= {name: value for name, value in stored.items() if name.startswith(f"{scope}.")}
        variables |= {f"{scope}.{name}": value for name, value in fields_of(stored.get(scope)).items()}
    loops = (name for name in variables if name.startswith("delegation.loop_") and variables[name])
    for name in islice(loops, MOST_STEPS):
        yield _step("delegation", variables[name])
    if result := variables.get("reasoning.final_result"):
        complete = scalar(variables.get("reasoning.session_complete"))
        yield _step("final_result", result, confidence=1.0 if complete is True else None)


def _step(step_type: str, value: Any, confidence: float | None = None) -> dict[str, Any]:
    return {"step_type": step_type, "content": excerpt(value, MOST_REASONING), "confidence": confidence}


def extract_version_2(checkpoint: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """As ``extract``; tasks and reasoning are not in it."""
    stored = fields_of(fields_of(checkpoint.get("sessions_data")).get("sessions"))
    sessions = {name: fields_of(session) for name, session in stored.items() if not name.startswith("$")}
    # Where older messages were dropped, or are about to be, nobody knows on how many conversations the totals were spent.
    is_full = any(
        0 < number(session.get("max_history")) <= len(items_of(session.get("chat_history")))
        for session in sessions.values()
    )
    statistics = fields_of(checkpoint.get("statistics"))
    about = {
        "agent": excerpt(checkpoint.get("agent_name"), 200),
        "timestamp": time_text(checkpoint.get("timestamp")),
        "totals": {} if is_full else {column: number(statistics.get(name)) for column, name in TOTALS_OF_2.items()},
        "tasks": [],
        "reasoning_steps": [],
        "system_prompt": content(fields_of(checkpoint.get("agent_config")).get("system_message"))[:MOST_SYSTEM],
        "tools": list(_tools(checkpoint)),
    }
    by_session = (conversations(name[:200], session.get("chat_history")) for name, session in sessions.items())
    return about, chain.from_iterable(by_session)


def _tools(checkpoint: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """In OpenAI's form."""
    tools = fields_of(fields_of(checkpoint.get("tool_registry_data")).get("tools"))
    named = ((name, fields_of(tool)) for name, tool in tools.items() if not name.startswith("$"))
    for name, tool in islice(named, MOST_TOOLS):
        function = fields_of(fields_of(tool.get("litellm_schema")).get("function"))
        described = {"name": name[:200], "description": excerpt(tool.get("description"), 1_000)}
        fits = function and len(excerpt(function, MOST_SCHEMA + 1)) <= MOST_SCHEMA
        yield {"type": "function", "function": function if fits else described}
