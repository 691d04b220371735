"""How families of models write tool calls: text to an action and back. They are JSON objects; dialects differ in what stands
around them."""

import json
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from rl.environments.contract import Action, ToolRequest

MOST_CALLS = 8
"""The most tool calls of one turn."""
_CLOSED = re.compile(r"\A.*(?:</think>|\[/THINK\])", re.DOTALL)
_OPEN = re.compile(r"(?:<think>|\[THINK\]).*\Z", re.DOTALL)
_BEGINS_A_MARK = re.compile(r"[<\[](?=/?think>|/?THINK\]|/?tool_call>|\|python_tag\|>|TOOL_CALLS\])")
DIALECTS = {
    "hermes": "rl.environments.dialects.hermes",
    "llama": "rl.environments.dialects.llama",
    "mistral": "rl.environments.dialects.mistral",
}
"""In the order in which they are tried on a model's own way of writing a call."""


class Dialect(Protocol):
    def read_action(self, text: str) -> Action:
        """``text`` has the dialect's special tokens and no end-of-turn token. Never raises."""

    def write_calls(self, calls: Sequence[ToolRequest]) -> str: ...


def dialect(name: str) -> Dialect:
    """``name``: a key of DIALECTS."""
    return cast(Dialect, import_module(DIALECTS[name]))


def action_of(prose: str, calls: Sequence[Any], request: Callable[[Any], ToolRequest], shape: str) -> Action:
    """``request`` raises ValueError; ``shape`` is what would be right."""
    if len(calls) > MOST_CALLS:
        return Action(prose, error=f"{len(calls)} tool calls in one turn, at most {MOST_CALLS} are allowed")
    try:
        return Action(prose, tuple(request(call) for call in calls))
    except ValueError as error:
        return unreadable(prose, str(error), shape)


def unreadable(prose: str, reason: str, shape: str) -> Action:
    return Action(prose, error=f"the tool call cannot be read: {reason}; write it as {shape}")


def parse_json(text: str) -> Any:
    """Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def request_of(document: Any, *keys: str) -> ToolRequest:
    """``keys``: where the arguments may stand. Raises ValueError."""
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise ValueError("it is not a JSON object with a name")
    arguments: Any = next((document[key] for key in keys if key in document), {})
    if not isinstance(arguments, dict):
        raise ValueError(f"{keys[0]} must be a JSON object")
    return ToolRequest(document["name"], arguments)


def document_of(call: ToolRequest, key: str) -> dict[str, Any]:
    return {"name": call.name, key: dict(call.arguments)}


def dump_json(document: object) -> str:
    """Writes one line, in which no argument looks like a mark of any dialect."""
    return _BEGINS_A_MARK.sub(lambda mark: f"\\u{ord(mark[0]):04x}", json.dumps(document, ensure_ascii=False))


def without_thinking(text: str) -> str:
    """What a model says to itself before it speaks is not part of its answer, and calls no tools. Thoughts that were cut off
    before their end leave nothing."""
    return _OPEN.sub("", _CLOSED.sub("", text)).strip()
