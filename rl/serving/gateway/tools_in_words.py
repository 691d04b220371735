"""Tools for models whose template has none: described and called in words, as training writes them for such templates
(``rl/environments/dialects/plain.py``). llama.cpp would leave tools, calls and results out without a word. A call that is
demanded is JSON, which its server keeps to a schema.

Ollama and others refuse tools that a model has not, or put them into words themselves.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from rl.base.messages import without_calls
from rl.environments.dialects import plain
from rl.environments.dialects.hermes import read_action
from rl.serving.gateway.chat_request import ChatRequest, with_system_prompt
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
    """Fields of the request with other values, None for none."""
    tools = request.document["tools"] if may_call(request) else ()
    chat = [{**message, "content": without_calls(message)} for message in request.messages]
    messages = plain.write_chat(with_system_prompt(chat, request.messages, route), tools)
    form = schema_of_call(demanded) if (demanded := _demanded_tools(request)) else {}
    return {"messages": messages, "tools": None, "tool_choice": None, "parallel_tool_calls": None, **form}


def _demanded_tools(request: ChatRequest) -> list[Mapping[str, Any]]:
    """Those of which one must be called."""
    choice, tools = request.document.get("tool_choice"), request.document.get("tools", ())
    if isinstance(choice, dict):
        return [tool for tool in tools if tool["function"]["name"] == choice["function"]["name"]]
    return list(tools) if choice == "required" else []


def schema_of_call(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The field of a request that keeps its answer to a call of one of the tools, as a JSON object. Their parameters stand
    among the definitions, where what refers to parts of them is led."""
    parameters = [tool["function"].get("parameters") or {"type": "object"} for tool in tools]
    roots = [f"#/$defs/tool{number}" for number in range(len(tools))]
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool["function"]["name"]}, "arguments": {"$ref": root}},
            "required": ["name", "arguments"],
        }
        for tool, root in zip(tools, roots, strict=True)
    ]
    moved = [_move_references(schema, root) for schema, root in zip(parameters, roots, strict=True)]
    definitions = {f"tool{number}": schema for number, schema in enumerate(moved)}
    schema = {"anyOf": calls, "$defs": definitions}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "call", "schema": schema}}}


def _move_references(schema: Any, root: str) -> Any:
    if isinstance(schema, list):
        return [_move_references(item, root) for item in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {name: _move_references(value, root) for name, value in schema.items()}
    reference = schema.get("$ref")
    return moved | ({"$ref": root + reference[1:]} if isinstance(reference, str) else {})


def with_calls_read(document: Mapping[str, Any], request: ChatRequest) -> dict[str, Any]:
    """The completion with calls in words as data. Calls that cannot be read stay words."""
    most = 1 if request.document.get("parallel_tool_calls") is False else None
    is_demanded = bool(_demanded_tools(request))
    return {**document, "choices": [_read(choice, most, is_demanded) for choice in document["choices"]]}


def _read(choice: Any, most: int | None, is_demanded: bool) -> Any:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict) or not isinstance(text := message.get("content"), str):
        return choice
    action = read_action(f"<tool_call>{text}</tool_call>" if is_demanded else text)
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
