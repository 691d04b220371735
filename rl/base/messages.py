"""Chat messages with tool calls: ``tool_calls`` beside an assistant's content, results as messages of the role ``tool``."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NotRequired, TypedDict

_CALL, _END = "<tool_call>", "</tool_call>"


class Message(TypedDict):
    """One chat message; ``role`` is system, user, assistant or tool. In rows, an assistant's may call tools."""

    role: str
    content: str
    tool_calls: NotRequired[list[dict[str, Any]]]
    """Each ``{"id", "type": "function", "function": {"name", "arguments"}}``, the arguments an object."""
    tool_call_id: NotRequired[str]
    """The call whose result a tool's message is."""
    name: NotRequired[str]
    """The tool whose message it is."""
    reasoning_content: NotRequired[str]
    """What an assistant thought before it said this."""


class RequestedCall(NamedTuple):
    name: str
    arguments: dict[str, Any]
    id: str = ""
    """Empty where the message gives none."""


def has_calls(messages: Iterable[Mapping[str, Any]]) -> bool:
    return any(message.get("tool_calls") for message in messages)


def last_question(prompt: Sequence[Message]) -> str:
    """Returns what the user said last; empty where no user said anything."""
    return next((message["content"] for message in reversed(prompt) if message["role"] == "user"), "")


def asks_nothing(prompt: Iterable[Mapping[str, Any]]) -> bool:
    """Whether its last question is blank; of a prompt without a user, whether all of it is."""
    texts = [(message.get("role"), str(message.get("content") or "")) for message in prompt]
    questions = [text for role, text in texts if role == "user"]
    return not "".join(questions[-1:] or (text for _, text in texts)).strip()


def tools_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The column ``tools`` of a row that has one, for a row that is made of it."""
    return {"tools": row["tools"]} if row.get("tools") else {}


def is_function(tool: object) -> bool:
    """Whether it has the form in which chat templates and OpenAI take a tool."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    return isinstance(name, str) and bool(name)


def requested_calls(message: Mapping[str, Any]) -> list[RequestedCall]:
    """Arguments may be an object, or its JSON as text. Raises ValueError for calls that cannot be read."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ValueError("tool_calls must be a list")
    return [_read_call(call) for call in calls]


def as_data(name: str, arguments: Mapping[str, Any] | str, identifier: str) -> dict[str, Any]:
    """A call among a message's ``tool_calls``, in OpenAI's form."""
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def in_words(message: Mapping[str, Any]) -> str:
    """What it says and calls. Raises ValueError for calls that cannot be read."""
    calls = (write_call(call.name, call.arguments) for call in requested_calls(message))
    return "\n".join([*([message["content"]] if message["content"] else []), *calls])


def without_calls(message: Mapping[str, Any]) -> str:
    """The content, without the words for its calls where they stand behind it too. Raises ValueError for calls that cannot
    be read."""
    content: str = message["content"]
    calls = requested_calls(message)
    text, *written = content.rsplit(_CALL, len(calls)) if calls else [content]
    known = [{"name": call.name, "arguments": call.arguments} for call in calls]
    return text.removesuffix("\n") if calls and list(map(_read_written, written)) == known else content


def write_call(name: str, arguments: Any) -> str:
    """The markup that most chat models are trained on."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"{_CALL}{body}{_END}"


def characters(messages: Iterable[Mapping[str, Any]]) -> int:
    """How many the messages have, thoughts and tool calls as JSON included."""
    return sum(
        len(message["content"] + (message.get("reasoning_content") or ""))
        + (len(json.dumps(calls, ensure_ascii=False)) if (calls := message.get("tool_calls")) else 0)
        for message in messages
    )


def _read_written(text: str) -> Any:
    """None for what ``write_call`` has not written."""
    try:
        return json.loads(text.strip().removesuffix(_END)) if text.strip().endswith(_END) else None
    except (ValueError, RecursionError):
        return None


def _read_call(call: object) -> RequestedCall:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise ValueError("a tool call must be an object with a function")
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call must name its function")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except RecursionError:
            raise ValueError("arguments are nested too deeply") from None
    if arguments is not None and not isinstance(arguments, Mapping):
        raise ValueError(f"the arguments of {name} must be an object")
    identifier = call.get("id")
    return RequestedCall(name, dict(arguments or {}), identifier if isinstance(identifier, str) else "")
