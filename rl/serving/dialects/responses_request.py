"""Requests of OpenAI's Responses API as chat completions (https://platform.openai.com/docs/api-reference/responses).

Tools that OpenAI runs itself, such as a search of the web, are left out: nobody here would run them. A tool whose input is
any text becomes a function with that text as its only argument."""

import re
from collections.abc import Callable
from typing import Any, Final

from rl.base.messages import as_data
from rl.serving.dialects.dialect import (
    CONVERSATION,
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

_CUSTOM: Final = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_TEXTS: Final = ("input_text", "output_text", "text", "refusal", "reasoning_text", "summary_text")
_LOGPROBS: Final = "message.output_text.logprobs"
_ITEM: Final = re.compile(r"(msg|rs|fc|ctc)_([0-9a-f]{32})(?:_([0-9]{1,4}))?")
"""Ids of the parts of an answer: its own, and the number of the part."""
PREVIOUS: Final = "previous_response_id"
_PLACES: Final = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "response_format.json_schema": "text.format",
    "reasoning_effort": "reasoning.effort",
    "verbosity": "text.verbosity",
}
_ANSWER = "resp_"


def ids_in(sent: Document) -> list[str]:
    """Answers by the ids of responses, and of parts of them; a conversation by its own."""
    given = [sent.get(PREVIOUS)]
    if isinstance(conversation := conversation_of(sent), str) and conversation:
        given.append(f"{CONVERSATION}{conversation}")
    items = sent.get("input")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("type") == "item_reference" and (match := _match(item.get("id"))):
            given.append(f"{_ANSWER}{match[2]}")
    return [name for name in given if isinstance(name, str) and name]


def conversation_of(sent: Document) -> object:
    conversation = sent.get("conversation")
    return conversation.get("id") if isinstance(conversation, dict) else conversation


def as_chat(sent: dict[str, Any], earlier: Earlier) -> ChatForm:
    """Raises UntranslatableRequest."""
    _refuse_what_waits(sent)
    chat: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    places: dict[str, str] = dict(_PLACES)
    messages: list[dict[str, Any]] = []
    if (instructions := sent.pop("instructions", None)) not in (None, ""):
        messages.append({"role": "system", "content": check_text(instructions, "instructions")})
        kept["instructions"] = True
    messages += _before(sent, earlier, chat, kept)
    chat["messages"] = messages
    chat |= _add_input(messages, sent.pop("input", None), earlier, places)
    _take_tools(sent, chat, kept, places)
    _take_form(sent, chat)
    if (most := sent.pop("max_output_tokens", None)) is not None:
        chat["max_tokens"] = most
    for name in take_list(sent, "include"):
        chat["logprobs" if name == _LOGPROBS else f"include.{str(name)[:40]}"] = True
    if "logprobs" not in chat:  # nobody would see them
        sent.pop("top_logprobs", None)
    return ChatForm({**sent, **chat}, kept, places)


def _refuse_what_waits(sent: dict[str, Any]) -> None:
    for name in ("background", "prompt"):
        if sent.pop(name, None):
            why = "answers come with the request" if name == "background" else "there are no stored prompts"
            raise UntranslatableRequest(f"{name} is not passed on: {why}", name, "unsupported_parameter")


def _before(sent: dict[str, Any], earlier: Earlier, chat: dict[str, Any], kept: dict[str, Any]) -> list[dict[str, Any]]:
    previous, conversation = sent.pop(PREVIOUS, None), conversation_of(sent)
    sent.pop("conversation", None)
    if previous and conversation:
        raise UntranslatableRequest(f"{PREVIOUS} and conversation: only one of them can be gone on from", PREVIOUS)
    if previous:
        kept[PREVIOUS] = check_text(previous, PREVIOUS)
        if not earlier.get(previous):
            message = f"there is no stored response {previous[:100]!r} that this key may read"
            raise UntranslatableRequest(message, PREVIOUS, "previous_response_not_found")
        return [dict(message) for message in earlier[previous]]
    if conversation:
        name = kept["conversation"] = check_text(conversation, "conversation")
        chat["metadata"] = {**take_object(sent, "metadata"), "session_id": name}
        return [dict(message) for message in earlier.get(f"{CONVERSATION}{name}", ())]
    return []


def _add_input(messages: list[dict[str, Any]], given: Any, earlier: Earlier, places: dict[str, str]) -> dict[str, bool]:
    """Returns what is left out, by its name."""
    left_out = {}
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
        return {}
    for number, value in enumerate(check_list(given, "input")):
        name = f"input[{number}]"
        item = check_object(value, name)
        kind = str(item.get("type") or ("message" if "role" in item else ""))
        if kind == "reasoning":  # what a model thought is not told to it again
            left_out["input.reasoning"] = True
        elif kind not in _ITEMS:
            known = ", ".join(sorted(_ITEMS))
            message = f"{name}.type is {kind[:50]!r}, which cannot be passed on; known: {known}, reasoning"
            raise UntranslatableRequest(message, f"{name}.type", "unsupported_parameter")
        else:
            before = len(messages)
            _ITEMS[kind](messages, item, name, earlier)
            places |= {f"messages[{index}]": name for index in range(before, len(messages))}
    return left_out


def _add_message(messages: list[dict[str, Any]], item: Document, name: str, _: Earlier) -> None:
    content, role = item.get("content"), check_text(item.get("role"), f"{name}.role")
    if not isinstance(content, str):
        parts = check_list(content, f"{name}.content")
        made = [_part(part, f"{name}.content[{number}]") for number, part in enumerate(parts)]
        content = join_parts(made) if made else ""
    messages.append({"role": role, "content": content})


def _part(value: Any, name: str) -> dict[str, Any]:
    part = check_object(value, name)
    kind = part.get("type")
    if kind in _TEXTS:
        return {"type": "text", "text": check_text(part.get("text", part.get("refusal")), f"{name}.text")}
    if kind == "input_image":
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": part.get("image_url"), **detail}}
    if kind == "input_file":
        return {"type": "file", "file": {key: part[key] for key in ("file_data", "file_id", "filename") if key in part}}
    raise UntranslatableRequest(f"{name}.type is {str(kind)[:50]!r}, which is not known", f"{name}.type")


def _add_function_call(messages: list[dict[str, Any]], item: Document, name: str, _: Earlier) -> None:
    called, call_id = check_text(item.get("name"), f"{name}.name"), check_text(item.get("call_id"), f"{name}.call_id")
    add_call(messages, as_data(called, check_text(item.get("arguments", "{}"), f"{name}.arguments"), call_id))


def _add_custom_call(messages: list[dict[str, Any]], item: Document, name: str, _: Earlier) -> None:
    called, call_id = check_text(item.get("name"), f"{name}.name"), check_text(item.get("call_id"), f"{name}.call_id")
    custom = {"name": called, "input": check_text(item.get("input", ""), f"{name}.input")}
    add_call(messages, {"id": call_id, "type": "custom", "custom": custom})


def _add_result(messages: list[dict[str, Any]], item: Document, name: str, _: Earlier) -> None:
    content: Any = item.get("output")
    if not isinstance(content, str):
        parts = check_list(content, f"{name}.output")
        content = join_parts([_part(part, f"{name}.output[{number}]") for number, part in enumerate(parts)] or [_EMPTY])
    call_id = check_text(item.get("call_id"), f"{name}.call_id")
    messages.append({"role": "tool", "tool_call_id": call_id, "content": content})


_EMPTY: Final = {"type": "text", "text": ""}


def _add_reference(messages: list[dict[str, Any]], item: Document, name: str, earlier: Earlier) -> None:
    """The part of an earlier answer; of its thoughts nothing."""
    match = _match(item.get("id"))
    chat = earlier.get(f"{_ANSWER}{match[2]}", ()) if match else ()
    if not match or not chat:
        raise UntranslatableRequest(f"{name}.id: there is no such item here", f"{name}.id", "item_not_found")
    kind, number, answer = match[1], int(match[3] or 0), chat[-1]
    calls = answer.get("tool_calls") or []
    if kind == "msg":
        messages.append({"role": "assistant", "content": answer["content"]})
    elif kind in ("fc", "ctc") and number < len(calls):
        add_call(messages, calls[number])


def _match(item_id: object) -> re.Match[str] | None:
    return _ITEM.fullmatch(item_id) if isinstance(item_id, str) else None


_ITEMS: Final[dict[str, Callable[[list[dict[str, Any]], Document, str, Earlier], None]]] = {
    "message": _add_message,
    "function_call": _add_function_call,
    "function_call_output": _add_result,
    "custom_tool_call": _add_custom_call,
    "custom_tool_call_output": _add_result,
    "item_reference": _add_reference,
}


def _take_tools(sent: dict[str, Any], chat: dict[str, Any], kept: dict[str, Any], places: dict[str, str]) -> None:
    """What is left out of the tools stands among the fields that are left out."""
    tools = take_list(sent, "tools")
    choice = sent.pop("tool_choice", None)
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = check_list(choice.get("tools"), "tool_choice.tools")
        names = [tool.get("name") for tool in allowed if isinstance(tool, dict)]
        tools = [tool for tool in tools if isinstance(tool, dict) and tool.get("name") in names]
        choice = choice.get("mode", "auto")
    made: list[dict[str, Any]] = []
    for number, value in enumerate(tools):
        tool = check_object(value, f"tools[{number}]")
        if tool.get("type") not in ("function", "custom"):
            chat[f"tools.{str(tool.get('type'))[:40]}"] = True
            continue
        places |= dict.fromkeys((f"tools[{len(made)}]", f"tools[{len(made)}].function"), f"tools[{number}]")
        made.append(_tool(tool))
        if tool["type"] == "custom":
            kept.setdefault("custom", []).append(tool.get("name"))
    if made:
        chat["tools"] = made
    if isinstance(choice, dict):
        choice = {"type": "function", "function": {"name": choice.get("name")}}
    if choice is not None and (made or choice not in ("auto", "none")):
        chat["tool_choice"] = choice


def _tool(tool: Document) -> dict[str, Any]:
    function = {name: tool[name] for name in ("name", "description", "strict") if tool.get(name) is not None}
    parameters = _CUSTOM if tool["type"] == "custom" else tool.get("parameters")
    return {"type": "function", "function": {**function, **({"parameters": parameters} if parameters else {})}}


def _take_form(sent: dict[str, Any], chat: dict[str, Any]) -> None:
    text = take_object(sent, "text")
    if (form := text.get("format")) is not None:
        form = check_object(form, "text.format")
        inner = {name: form[name] for name in ("name", "description", "strict", "schema") if form.get(name) is not None}
        is_schema = form.get("type") == "json_schema"
        chat["response_format"] = {"type": form.get("type"), **({"json_schema": inner} if is_schema else {})}
    if text.get("verbosity"):
        chat["verbosity"] = text["verbosity"]
    reasoning = take_object(sent, "reasoning")
    if reasoning.get("effort"):
        chat["reasoning_effort"] = reasoning["effort"]
