"""OpenAI's chat completions: what programs ask for and what they are answered, documents to requests, and replies to
documents and streams."""

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl.base.messages import is_function
from rl.environments.contract import ToolRequest


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: str
    """system, user, assistant or tool."""
    content: str
    calls: tuple[ToolRequest, ...] = ()
    """An assistant's."""
    name: str = ""
    """The tool whose result it is."""


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    messages: tuple[ChatMessage, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    """Schemas, as a chat template takes them."""
    most_tokens: int | None = None
    """The most that the program wants; None: as many as there may be."""
    stop: tuple[str, ...] = ()
    """Texts behind which nothing more is wanted."""
    model: str = ""
    """What the program calls the model; it is told the same."""
    stream: bool = False
    include_usage: bool = False
    """In a stream: a last chunk tells the tokens."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    text: str
    calls: tuple[ToolRequest, ...] = ()
    is_cut: bool = False
    """It ends because there was no room for more."""
    tokens_in: int = 0
    tokens_out: int = 0


class CallRefused(Exception):
    """What the program is told in place of an answer, as OpenAI's API tells it."""

    def __init__(self, message: str, code: str = "", status: int = 400) -> None:
        """``code``: OpenAI's, such as context_length_exceeded."""
        self.code, self.status = code, status
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class End:
    reward: float | None
    """None where nothing can be said about the model."""
    success: bool
    reason: str
    """One sentence for people."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """JSON. ``failed``: how the program itself failed, where it did; ``crashed``: whether that says nothing of the task."""


_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def read_request(document: Any) -> ProgramRequest:
    """Raises CallRefused for what is not a request, or asks for more than one answer of text."""
    if not isinstance(document, dict) or not isinstance(document.get("messages"), list) or not document["messages"]:
        raise CallRefused("the request must be an object with messages")
    if document.get("n") not in (None, 1):
        raise CallRefused("n must be 1: an episode goes one way")
    tools = () if document.get("tool_choice") == "none" else document.get("tools") or ()
    if tools and (not isinstance(tools, list) or not all(map(is_function, tools))):
        raise CallRefused("tools must be a list of functions, each with a name")
    most = document.get("max_completion_tokens") or document.get("max_tokens")
    if most is not None and (not isinstance(most, int) or most < 1):
        raise CallRefused("max_tokens must be a whole number, 1 or more")
    stop = document.get("stop")
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or not all(isinstance(text, str) for text in stops):
        raise CallRefused("stop must be a text or a list of texts")
    options, names = document.get("stream_options"), dict[str, str]()
    return ProgramRequest(
        tuple(_message(message, names) for message in document["messages"]),
        tuple({"type": "function", "function": tool["function"]} for tool in tools),
        most,
        tuple(filter(None, stops)),
        str(document.get("model") or ""),
        bool(document.get("stream")),
        isinstance(options, dict) and bool(options.get("include_usage")),
    )


def write_completion(request: ProgramRequest, reply: ChatReply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = _call_documents(reply.calls)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    return {**_head(request, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def write_stream(request: ProgramRequest, reply: ChatReply) -> Iterator[bytes]:
    """Server-sent events. The answer is whole before its first event: it was generated together with others."""
    head = _head(request, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": reply.text}] if reply.text else []
    for index, call in enumerate(_call_documents(reply.calls)):
        deltas.append({"tool_calls": [{"index": index, **call}]})
    finishes = [None] * len(deltas) + [_finish(reply)]
    events: list[dict[str, Any]] = []
    for delta, finish in zip([*deltas, {}], finishes, strict=True):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        events.append({**head, "choices": [choice]})
    if request.include_usage:
        events.append({**head, "choices": [], "usage": _usage(reply)})
    yield from (b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n" for event in events)
    yield b"data: [DONE]\n\n"


def write_refusal(refusal: CallRefused) -> dict[str, Any]:
    kind = "invalid_request_error"
    return {"error": {"message": str(refusal), "type": kind, "param": None, "code": refusal.code or None}}


def write_models() -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "policy", "object": "model", "created": 0, "owned_by": "ratchet"}]}


def _message(document: Any, names: dict[str, str]) -> ChatMessage:
    """``names``: the id of each call so far to its tool; those of the message are added."""
    role = _ROLES.get(document.get("role", "")) if isinstance(document, dict) else None
    if role is None:
        raise CallRefused(f"a message's role must be one of {', '.join(_ROLES)}")
    content = _text(document.get("content"))
    if role == "tool":
        name = names.get(str(document.get("tool_call_id")), "") or str(document.get("name") or "unknown")
        return ChatMessage(role, content, name=name)
    if role != "assistant":
        return ChatMessage(role, content)
    calls = []
    for call in document.get("tool_calls") or ():
        request = _call(call)
        names[str(call.get("id"))] = request.name
        calls.append(request)
    return ChatMessage(role, content, tuple(calls))


def _call(document: Any) -> ToolRequest:
    try:
        function = document["function"]
        arguments = json.loads(function.get("arguments") or "{}")
        if not isinstance(arguments, dict):
            raise ValueError("not an object")
        return ToolRequest(str(function["name"]), arguments)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise CallRefused(
            "a tool call must have a function with a name, and arguments that are a JSON object"
        ) from None


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        if all(isinstance(part, str) for part in parts):
            return "".join(map(str, parts))
    raise CallRefused("a message's content must be text: the model reads nothing else")


def _head(request: ProgramRequest, kind: str) -> dict[str, Any]:
    name = request.model or "policy"
    return {"id": f"chatcmpl-{secrets.token_hex(12)}", "object": kind, "created": int(time.time()), "model": name}


def _call_documents(calls: Sequence[ToolRequest]) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{secrets.token_hex(12)}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for call in calls
    ]


def _finish(reply: ChatReply) -> str:
    return "tool_calls" if reply.calls else "length" if reply.is_cut else "stop"


def _usage(reply: ChatReply) -> dict[str, int]:
    return {
        "prompt_tokens": reply.tokens_in,
        "completion_tokens": reply.tokens_out,
        "total_tokens": reply.tokens_in + reply.tokens_out,
    }
