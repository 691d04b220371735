"""Requests of Anthropic's Messages API as chat completions (https://platform.claude.com/docs/en/api/messages).

Tools without a schema of their own, which Anthropic runs or its models know, are left out."""

import hashlib
import json
from typing import Any, Final

from rl.base.messages import as_data
from rl.collect.limits import MAX_ID_LENGTH
from rl.serving.dialects.dialect import (
    ChatForm,
    Document,
    Earlier,
    UntranslatableRequest,
    add_call,
    check_list,
    check_object,
    check_text,
    join_parts,
    take_list,
    take_object,
)

_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_THINKS: Final = {"enabled": True, "disabled": False}
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_PLACES: Final = {
    "stop": "stop_sequences",
    "response_format": "output_config.format",
    "response_format.json_schema": "output_config.format",
    "reasoning_effort": "output_config.effort",
    "chat_template_kwargs": "thinking",
    "user": "metadata.user_id",
}


def as_chat(sent: dict[str, Any], _: Earlier) -> ChatForm:
    """Raises UntranslatableRequest."""
    chat: dict[str, Any] = {}
    places: dict[str, str] = dict(_PLACES)
    messages: list[dict[str, Any]] = []
    if (system := sent.pop("system", None)) not in (None, "", []):
        content = system if isinstance(system, str) else join_parts(_blocks(system, "system", chat)[0])
        messages.append({"role": "system", "content": content})
        places["messages[0]"] = "system"
    for number, message in enumerate(check_list(sent.pop("messages", None), "messages")):
        name, before = f"messages[{number}]", len(messages)
        _add_message(messages, check_object(message, name), name, chat)
        places |= {f"messages[{index}]": name for index in range(before, len(messages))}
    _take_tools(sent, chat, places)
    _take_thinking(sent, chat)
    if (stops := sent.pop("stop_sequences", None)) is not None:
        chat["stop"] = stops
    _take_user(sent, chat)
    return ChatForm({**sent, **chat, "messages": messages}, places=places)


def _add_message(messages: list[dict[str, Any]], message: Document, name: str, chat: dict[str, Any]) -> None:
    role, content = check_text(message.get("role"), f"{name}.role"), message.get("content")
    if isinstance(content, str):
        messages.append({"role": role, "content": content})
        return
    parts, calls, results = _blocks(content, f"{name}.content", chat)
    messages.extend(results)  # before what a person adds to them
    if parts or not (calls or results):
        messages.append({"role": role, "content": join_parts(parts) if parts else ""})
    elif calls:
        messages.append({"role": role, "content": None})
    for call in calls:
        add_call(messages, call)


def _blocks(
    value: Any, name: str, chat: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Parts of a content, calls of tools, and messages with their results. What was thought is not told again."""
    parts, calls, results = [], [], []
    for number, given in enumerate(check_list(value, name)):
        at = f"{name}[{number}]"
        block = check_object(given, at)
        kind = block.get("type")
        if kind in _THOUGHTS:
            chat["messages.thinking"] = True
        elif kind == "tool_use":
            called = check_text(block.get("name"), f"{at}.name")
            arguments = json.dumps(check_object(block.get("input", {}), f"{at}.input"), ensure_ascii=False)
            calls.append(as_data(called, arguments, check_text(block.get("id"), f"{at}.id")))
        elif kind == "tool_result":
            results.append(_result(block, at, chat))
        else:
            parts.append(_part(block, at))
    return parts, calls, results


def _result(block: Document, name: str, chat: dict[str, Any]) -> dict[str, Any]:
    content = block.get("content", "")
    if not isinstance(content, str):
        content = join_parts(_blocks(content, f"{name}.content", chat)[0] or [{"type": "text", "text": ""}])
    call_id = check_text(block.get("tool_use_id"), f"{name}.tool_use_id")
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def _part(block: Document, name: str) -> dict[str, Any]:
    kind, source = block.get("type"), block.get("source")
    if kind == "text":
        return {"type": "text", "text": check_text(block.get("text"), f"{name}.text")}
    if kind == "document" and isinstance(source, dict) and source.get("type") == "text":
        return {"type": "text", "text": check_text(source.get("data"), f"{name}.source.data")}
    if kind == "image" and isinstance(source, dict):
        data = f"data:{source.get('media_type')};base64,{source.get('data')}"
        return {"type": "image_url", "image_url": {"url": source.get("url") or data}}
    if kind == "document":
        return {"type": "file", "file": source}
    raise UntranslatableRequest(
        f"{name}.type is {str(kind)[:50]!r}, which cannot be passed on", f"{name}.type", "unsupported_parameter"
    )


def _take_tools(sent: dict[str, Any], chat: dict[str, Any], places: dict[str, str]) -> None:
    """What is left out of the tools stands among the fields that are left out."""
    made: list[dict[str, Any]] = []
    for number, value in enumerate(take_list(sent, "tools")):
        tool = check_object(value, f"tools[{number}]")
        if tool.get("type") not in (None, "custom"):
            chat[f"tools.{str(tool['type'])[:40]}"] = True
            continue
        function = {name: tool[name] for name in ("name", "description", "strict") if tool.get(name) is not None}
        at = f"tools[{len(made)}]"
        places |= dict.fromkeys((at, f"{at}.function"), f"tools[{number}]")
        places[f"{at}.function.parameters"] = f"tools[{number}].input_schema"
        made.append({"type": "function", "function": {**function, "parameters": tool.get("input_schema")}})
    if made:
        chat["tools"] = made
    choice = take_object(sent, "tool_choice") or {"type": "auto"}
    if choice.get("disable_parallel_tool_use") is True:
        chat["parallel_tool_calls"] = False
    if choice.get("type") == "tool":
        chat["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif (made or choice.get("type") == "any") and choice != {"type": "auto"}:
        chat["tool_choice"] = _CHOICES.get(str(choice.get("type")), choice)


def _take_thinking(sent: dict[str, Any], chat: dict[str, Any]) -> None:
    """``adaptive`` leaves it to the model."""
    thinking = str(take_object(sent, "thinking").get("type"))
    if thinking in _THINKS:
        chat["chat_template_kwargs"] = dict.fromkeys(("enable_thinking", "thinking"), _THINKS[thinking])
    config = take_object(sent, "output_config")
    if config.get("effort"):
        chat["reasoning_effort"] = config["effort"]
    if (form := config.get("format")) is not None:
        schema = check_object(form, "output_config.format").get("schema")
        chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def _take_user(sent: dict[str, Any], chat: dict[str, Any]) -> None:
    """A name that is longer than names may be is known by its hash: programs put JSON there."""
    user = take_object(sent, "metadata").get("user_id")
    if user is not None:
        name = check_text(user, "metadata.user_id")
        chat["user"] = name if len(name) <= MAX_ID_LENGTH else hashlib.sha256(name.encode()).hexdigest()
