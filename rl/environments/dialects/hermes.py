"""Tool calls as Hermes, Qwen and Miniagent write them: ``<tool_call>{"name": "...", "arguments": {...}}</tool_call>``."""

import re
from collections.abc import Sequence

from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects import MOST_CALLS, action_of, document_of, dump_json, parse_json, request_of  # noqa: F401

OPENING, CLOSING = "<tool_call>", "</tool_call>"
_CALL = re.compile(re.escape(OPENING) + r"(.*?)(?:" + re.escape(CLOSING) + r"|\Z)", re.DOTALL)
SHAPE = f'{OPENING}{{"name": "...", "arguments": {{...}}}}{CLOSING}'
"""What is told to an agent that wrote something else."""


def read_action(text: str) -> Action:
    """Never raises: a call that is malformed is the action's ``error``, which says what would be right."""
    prose = _CALL.sub("", text).strip()
    return action_of(prose, _CALL.findall(text), lambda call: request_of(parse_json(call), "arguments"), SHAPE)


def write_calls(calls: Sequence[ToolRequest]) -> str:
    return "\n".join(f"{OPENING}{dump_json(document_of(call, 'arguments'))}{CLOSING}" for call in calls)
