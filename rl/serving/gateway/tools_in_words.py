"""Tools for models whose template has none: described and called in words, as training writes them for such templates
(``rl/environments/dialects/plain.py``). llama.cpp would leave tools, calls and results out without a word.

Ollama and others refuse tools that a model has not, or put them into words themselves.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from rl.base.messages import without_calls
from rl.environments.dialects import plain
from rl.environments.dialects.hermes import read_action
from rl.serving.gateway.chat_request import ChatRequest, with_system_prompt
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import Route

_CALL, _RESULT = "zqcalled1", "zqobserved"
_FUNCTION: Final = {"name": "lookup7", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}
_CALLED: Final = {"name": "lookup7", "arguments": json.dumps({"query": _CALL})}
TRIAL: Final[Mapping[str, Any]] = {
    "messages": [
        {"role": "user", "content": "?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call00001", "type": "function", "function": _CALLED}],
        },
        {"role": "tool", "tool_call_id": "call00001", "content": _RESULT},
    ],
    "tools": [{"type": "function", "function": _FUNCTION}],
}
"""A chat that shows what a template does with tools."""


def knows_tools(written: str) -> bool:
    """``written``: what the template makes of the TRIAL."""
    return _CALL in written and _RESULT in written


def has_tools(request: ChatRequest) -> bool:
    """In what it offers, or in what was said."""
    used = any(message["role"] == "tool" or message.get("tool_calls") for message in request.messages)
    return used or bool(request.document.get("tools"))


def may_call(request: ChatRequest) -> bool:
    return bool(request.document.get("tools")) and request.document.get("tool_choice") != "none"


def in_words(request: ChatRequest, route: Route) -> dict[str, Any]:
    """Fields of the request with other values, None for none. Raises Refusal where a call is demanded: words cannot
    promise one."""
    if request.document.get("tool_choice") not in (None, "auto", "none"):
        message = (
            f"the template of {route.model} has no tools, they are called in words: tool_choice can be auto or none"
        )
        raise Refusal(400, message, param="tool_choice", code="unsupported_parameter")
    tools = request.document["tools"] if may_call(request) else ()
    chat = [{**message, "content": without_calls(message)} for message in request.messages]
    messages = plain.write_chat(with_system_prompt(chat, request.messages, route), tools)
    return {"messages": messages, "tools": None, "tool_choice": None, "parallel_tool_calls": None}


def with_calls_read(document: Mapping[str, Any], request: ChatRequest) -> dict[str, Any]:
    """The completion with calls in words as data. Calls that cannot be read stay words."""
    most = 1 if request.document.get("parallel_tool_calls") is False else None
    return {**document, "choices": [_read(choice, most) for choice in document["choices"]]}


def _read(choice: Any, most: int | None) -> Any:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict) or not isinstance(text := message.get("content"), str):
        return choice
    action = read_action(text)
    calls = [
        {
            "id": f"call_{uuid4().hex}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for call in action.calls[:most]
    ]
    turned = {**message, "content": action.text or None, "tool_calls": calls}
    return {**choice, "message": turned, "finish_reason": "tool_calls"} if calls else choice
