"""What a FlowAgent's checkpoint holds: its conversations as questions and answers in the shape of a trace file, and what it
says of the agent as a whole. Nobody promises the shape of the data: what does not fit is empty, and nothing large is written
out whole.

Version 2.0, which ToolBoxV2 writes since January 2026, is other: ``sessions_data`` has the sessions one level deeper, their
messages have no time, and ``agent_config`` knows the system prompt. Only what is named here is looked at."""

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from math import isfinite
from typing import Any

from rl.base.slugs import printable
from rl.from_systems.toolbox.checkpoints.opcodes import OpcodeRefused


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of an object, or the items of a dict or of a subclass of one; empty for anything else."""
    if not isinstance(value, dict):
        return {}
    if isinstance(pairs := value.get("$pairs"), list):
        pairs = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2]
        # text of another key may be endless: it can share lists with itself
        return {str(scalar(key)): inner for key, inner in pairs if isinstance(scalar(key), (str, int, float))}
    mapping = value.get("$mapping")
    return {**value, **mapping} if isinstance(mapping, dict) else value


def items_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = value.get("$elements")
    return value if isinstance(value, list) else []


def scalar(value: Any) -> Any:
    """A member of an enum is its value, or its name."""
    if isinstance(value, dict):
        if "$value" in value:
            return value["$value"]
        if isinstance(type_name := value.get("$type"), str):
            return type_name.rpartition(".")[2]
    return value


def word(value: Any) -> str:
    """A role or a status, in small letters."""
    text = scalar(value)
    return text.strip().lower() if isinstance(text, str) else ""


def content(value: Any) -> str:
    """The text of a message's content, which is text or a list of parts of which some are text."""
    plain = scalar(value)
    if isinstance(plain, str):
        return plain
    parts = (fields_of(part).get("text") if isinstance(part, dict) else part for part in items_of(plain)[:1000])
    return "\n".join(part for part in parts if isinstance(part, str))


def excerpt(value: Any, limit: int) -> str:
    """At most that many characters: of a text itself, of anything else as JSON, of which no more is written."""
    plain = scalar(value)
    if plain is None:
        return ""
    if isinstance(plain, str):
        return plain[:limit]
    pieces, length = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(plain):
        pieces.append(piece)
        length += len(piece)
        if length > limit:
            break
    return "".join(pieces)[:limit]


def fit(value: Any, limit: int) -> Any:
    """The value where its JSON text has at most that many characters, else the beginning of that text."""
    text = excerpt(value, limit + 1)
    return value if len(text) <= limit else text[:limit]


def number(value: Any) -> float:
    """A count or a sum; 0 for what is none."""
    count = scalar(value)
    if isinstance(count, bool) or not isinstance(count, (int, float)) or not isfinite(count):
        return 0
    return count if 0 <= count <= 2**53 else 0


def time_text(value: Any) -> str:
    """As the file has it: ISO 8601 text, a date (which is such text here), or seconds since 1970."""
    time = scalar(value)
    if isinstance(time, (int, float)) and number(time):
        try:
            return datetime.fromtimestamp(time, UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            return ""
    return time[:64] if isinstance(time, str) else ""


def moment(text: str) -> datetime | None:
    """In UTC; a time without a zone is taken as UTC."""
    try:
        time = datetime.fromisoformat(text.strip())
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


MOST_ARGUMENTS, MOST_RESULT, MOST_ERROR = 20_000, 2_000, 1_000
"""Characters that are kept of a tool call."""
MOST_SUMMARY, MOST_REASONING, MOST_TASK_TEXT, MOST_SYSTEM, MOST_SCHEMA = 1_000, 1_000, 500, 50_000, 5_000
"""Those of a run's summary, a reasoning step, a task's text, a system prompt, and a tool's schema."""
MOST_STEPS, MOST_TASKS, MOST_TOOLS = 1_000, 10_000, 200
"""Reasoning steps, tasks and tools that are kept of one checkpoint."""
MILESTONE = "--- FOKUS-WECHSEL"
"""How a message begins that marks another focus within a run."""
BETWEEN_QUESTIONS = "\n\n"
_RUN_SUMMARY = re.compile(r"\W{0,10}RUN SUMMARY \[")


def conversations(session_id: str, history: Any) -> Iterator[dict[str, Any]]:
    """The non-empty messages of a user up to the next non-empty one of the assistant, with what happened between them.
    Several questions before one answer are one conversation."""
    questions: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    for message in map(fields_of, items_of(history)):
        role, text = word(message.get("role")), content(message.get("content"))
        if role == "user" and text.strip():
            questions.append(message)
        elif not questions:
            continue
        elif role == "tool":
            calls.append(_tool_call(message))
        elif role in ("assistant", "system") and _RUN_SUMMARY.match(text):  # notes of ToolBoxV2 for itself
            steps.append({"step_type": "run_summary", "content": text[:MOST_SUMMARY]})
        elif role == "assistant" and text.strip() and not text.lstrip().startswith(MILESTONE):
            yield _conversation(session_id, questions, message, text) | {"tool_calls": calls, "reasoning_steps": steps}
            questions, calls, steps = [], [], []


def trace_id(session_id: str, query: str, timestamp: str, response: str, repeat: int = 0) -> str:
    """The same conversation has the same id in every checkpoint. Without a time, the answer distinguishes two questions,
    and ``repeat`` says how often they were there before."""
    parts: list[Any] = [session_id, query, timestamp or response]
    return hashlib.sha256(json.dumps(parts + [repeat] * bool(repeat)).encode()).hexdigest()[:32]


def _conversation(
    session_id: str, questions: list[dict[str, Any]], answer: dict[str, Any], response: str
) -> dict[str, Any]:
    query = BETWEEN_QUESTIONS.join(content(question.get("content")) for question in questions)
    timestamp = time_text(questions[0].get("timestamp"))
    asked, answered = moment(timestamp), moment(time_text(answer.get("timestamp")))
    # what comes a day later was not being made all the time
    took = answered - asked if asked and answered else timedelta()
    return {
        "trace_id": trace_id(session_id, query, timestamp, response),
        "session_id": session_id,
        "timestamp": timestamp if asked else "",
        "user_query": query,
        "final_response": response,
        "execution_duration_ms": took / timedelta(milliseconds=1) if timedelta() < took < timedelta(days=1) else 0,
    }


def _tool_call(message: dict[str, Any]) -> dict[str, Any]:
    """One without a name is of version 2.0, which tells of failures in the text alone."""
    error, text = scalar(message.get("error")), content(message.get("content"))
    if not error and not message.get("name") and text.startswith("Error:"):
        error = text
    return {
        "tool_name": excerpt(message.get("name"), 200) or "unknown",
        "arguments": fit(message.get("arguments"), MOST_ARGUMENTS),
        "result": text[:MOST_RESULT] or excerpt(message.get("content"), MOST_RESULT),
        "success": not error,
        "error": excerpt(error, MOST_ERROR) if error else "",
        "timestamp": time_text(message.get("timestamp")),
    }


TOTALS = {
    "total_tokens_in": "total_tokens_in",
    "total_tokens_out": "total_tokens_out",
    "total_cost": "total_cost_accumulated",
    "llm_calls_count": "total_llm_calls",
}
"""A trace's column, and its name in the state of the agent."""
_PARTS = ("session_data", "conversation_history", "agent_state", "task_state", "variable_scopes")


def extract(root: Any) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """From plain data to ``{agent, timestamp, totals, tasks, reasoning_steps, system_prompt, tools}`` and the conversations,
    in the shape of trace files. Raises OpcodeRefused for what is not a checkpoint."""
    checkpoint = fields_of(root)
    if checkpoint.get("version") == "2.0" or "sessions_data" in checkpoint:
        return extract_version_2(checkpoint)
    if not any(part in checkpoint for part in _PARTS):
        kind = checkpoint.get("$class") or type(root).__name__
        raise OpcodeRefused(f"holds {printable(excerpt(kind, 200))}, not a checkpoint of an agent")
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
        yield {"step_type": "delegation", "content": excerpt(variables[name], MOST_REASONING), "confidence": None}
    if result := variables.get("reasoning.final_result"):
        complete = scalar(variables.get("reasoning.session_complete"))
        step = {"step_type": "final_result", "content": excerpt(result, MOST_REASONING)}
        yield {**step, "confidence": 1.0 if complete is True else None}


def extract_version_2(checkpoint: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """As ``extract``; tasks and reasoning are not in it."""
    stored = fields_of(fields_of(checkpoint.get("sessions_data")).get("sessions"))
    sessions = {name: fields_of(session) for name, session in stored.items() if not name.startswith("$")}
    # Where older messages were dropped, or are about to be, nobody knows on how many conversations the totals were spent.
    is_full = any(
        0 < number(session.get("max_history")) <= len(items_of(session.get("chat_history")))
        for session in sessions.values()
    )
    statistics, names = fields_of(checkpoint.get("statistics")), {**TOTALS, "total_cost": "total_cost"}
    about = {
        "agent": excerpt(checkpoint.get("agent_name"), 200),
        "timestamp": time_text(checkpoint.get("timestamp")),
        "totals": {} if is_full else {column: number(statistics.get(name)) for column, name in names.items()},
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
