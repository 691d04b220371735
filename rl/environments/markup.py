"""Tool calls as Hermes, Qwen and Miniagent write them: ``<tool_call>{"name": "...", "arguments": {...}}</tool_call>``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from rl.environments.contract import Action, ToolRequest

OPENING, CLOSING = "<tool_call>", "</tool_call>"
_CALL = re.compile(re.escape(OPENING) + r"(.*?)(?:" + re.escape(CLOSING) + r"|\Z)", re.DOTALL)
_SHAPE = f'{OPENING}{{"name": "...", "arguments": {{...}}}}{CLOSING}'
MOST_CALLS = 8
"""In one turn."""


def read_action(text: str) -> Action:
    """Never raises: a call that is malformed is the action's ``error``, which says what would be right."""
    found = _CALL.findall(text)
    said = _CALL.sub("", text).strip()
    if len(found) > MOST_CALLS:
        return Action(said, error=f"{len(found)} tool calls in one turn, at most {MOST_CALLS} are allowed")
    try:
        return Action(said, tuple(_request(call) for call in found))
    except ValueError as error:
        return Action(said, error=f"the tool call cannot be read: {error}; write it as {_SHAPE}")


def write_calls(calls: Sequence[ToolRequest]) -> str:
    return "\n".join(f"{OPENING}{json.dumps(_document(call), ensure_ascii=False)}{CLOSING}" for call in calls)


def _document(call: ToolRequest) -> dict[str, Any]:
    return {"name": call.name, "arguments": dict(call.arguments)}


def _request(text: str) -> ToolRequest:
    """Raises ValueError."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise ValueError("it is no JSON object with a name")
    arguments = document.get("arguments", {})
    if not isinstance(arguments, dict):
        raise ValueError("arguments must be a JSON object")
    return ToolRequest(document["name"], arguments)
