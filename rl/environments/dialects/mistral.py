"""Tool calls as Mistral's models write them: ``[TOOL_CALLS] [{"name": "...", "arguments": {...}}]``, and since 2025
``[TOOL_CALLS]name[ARGS]{...}``, once for each call."""

import re
from collections.abc import Sequence
from typing import Any

from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects import action_of, document_of, dump_json, parse_json, request_of, unreadable

OPENING = "[TOOL_CALLS]"
_SHAPE = f'{OPENING} [{{"name": "...", "arguments": {{...}}}}]'
_NAMED = re.compile(r"\s*([^\s\[\]{}]+)\s*(?:\[CALL_ID\]\s*\w*\s*)?(?:\[ARGS\])?\s*(\{.*)", re.DOTALL)


def read_action(text: str) -> Action:
    """Never raises: a call that is malformed is the action's ``error``, which says what would be right."""
    prose, *parts = text.split(OPENING)
    prose = prose.strip()
    try:
        calls = [call for part in parts for call in _documents(part)]
    except ValueError as error:
        return unreadable(prose, str(error), _SHAPE)
    return action_of(prose, calls, lambda call: request_of(call, "arguments"), _SHAPE)


def write_calls(calls: Sequence[ToolRequest]) -> str:
    return f"{OPENING} {dump_json([document_of(call, 'arguments') for call in calls])}" if calls else ""


def _documents(part: str) -> list[Any]:
    """What stands behind one ``[TOOL_CALLS]``. Raises ValueError."""
    if match := _NAMED.fullmatch(part):
        return [{"name": match[1], "arguments": parse_json(match[2])}]
    value = parse_json(part)
    if value == []:
        raise ValueError("it is an empty list")
    return value if isinstance(value, list) else [value]
