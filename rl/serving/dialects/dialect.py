"""What a dialect is, and what all of them need."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from uuid import UUID

Document = Mapping[str, Any]
Headers = Mapping[str, str | int]
Chunk = Mapping[str, Any]
"""A piece of a stream of chat completions."""
Earlier = Mapping[str, Sequence[Document]]
"""By the id that a request names: the chat up to the answer, which is its last message; empty for one that is unknown."""
CONVERSATION: Final = "conversation "
"""Stands before the name of a conversation among the ids that a request names: it may look like that of an answer."""
SIGN_OF_LIFE: Final = b":\n\n"
DATA: Final = b"data: "


class UntranslatableRequest(Exception):
    """A request that no chat completion can be made of. ``param``: the field of the client's request."""

    def __init__(self, message: str, param: str, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.message, self.param, self.code = message, param, code


@dataclass(frozen=True, slots=True)
class ChatForm:
    """A request as a chat completion's."""

    document: dict[str, Any]
    kept: Mapping[str, Any] = field(default_factory=dict)
    """What the answer says again and chat completions have no place for; stored with it."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Place in the chat completion's request, such as ``messages[1]``, to the place in the client's; what is below goes
    along."""

    def place_of(self, name: str) -> str:
        """Returns where the client's request has what the chat completion's has there."""
        above = (known for known in self.places if name == known or name.startswith((f"{known}.", f"{known}[")))
        nearest = max(above, key=len, default="")
        return self.places[nearest] + name[len(nearest) :] if nearest else name


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What is known of an answer before its first word."""

    id: UUID
    model: str
    created: int
    """Seconds since 1970."""
    document: Document
    """The request as a chat completion's, as far as it is passed on."""
    kept: Document = field(default_factory=dict)
    """``ChatForm.kept``."""


class AnswerStream(Protocol):
    """Writes one answer as an event stream."""

    def write(self, chunk: Chunk) -> bytes:
        """Returns no bytes for what the dialect does not tell."""

    def end(self) -> bytes: ...

    def fail(self, status: int, error: Document) -> bytes:
        """``error``: as OpenAI's errors have it (message, type, param, code)."""


@dataclass(frozen=True, slots=True)
class RequestRate:
    """How often somebody has asked in this minute."""

    limit: int
    count: int
    ends: int
    """When the next minute begins, in seconds since 1970."""

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.count)

    @property
    def is_exceeded(self) -> bool:
        return self.count > self.limit

    @property
    def seconds(self) -> int:
        """Until then, 0 once it has begun."""
        return max(0, self.ends - int(time.time()))


def openai_rate(rate: RequestRate) -> Headers:
    minutes, seconds = divmod(rate.seconds, 60)
    return {
        "x-ratelimit-limit-requests": rate.limit,
        "x-ratelimit-remaining-requests": rate.remaining,
        "x-ratelimit-reset-requests": f"{minutes}m{seconds}s" if minutes else f"{seconds}s",
    }


@dataclass(frozen=True, slots=True)
class ApiDialect:
    name: str
    path: str
    as_chat: Callable[[dict[str, Any], Earlier], ChatForm]
    """Raises UntranslatableRequest."""
    whole: Callable[[AnswerHead, Document], dict[str, Any]]
    """A chat completion as this dialect writes it."""
    stream: Callable[[AnswerHead], AnswerStream]
    error: Callable[[int, Document], dict[str, Any]]
    """A body, from a status and an error as OpenAI writes it."""
    ids_in: Callable[[Document], Sequence[str]] = lambda _: ()
    """Ids of earlier answers that a request names."""
    rate_headers: Callable[[RequestRate], Headers] = openai_rate


def event(document: Document, name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + DATA + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def openai_error(_: int, error: Document) -> dict[str, Any]:
    return {"error": dict(error)}


def take_object(sent: dict[str, Any], name: str) -> dict[str, Any]:
    """Takes the field out; empty where it was not sent. Raises UntranslatableRequest."""
    value = sent.pop(name, None)
    return {} if value is None else check_object(value, name)


def take_list(sent: dict[str, Any], name: str) -> list[Any]:
    """Takes the field out; empty where it was not sent. Raises UntranslatableRequest."""
    value = sent.pop(name, None)
    return [] if value is None else check_list(value, name)


def check_object(value: Any, name: str) -> dict[str, Any]:
    """Raises UntranslatableRequest."""
    if not isinstance(value, dict):
        raise UntranslatableRequest(f"{name} must be an object", name)
    return value


def check_list(value: Any, name: str) -> list[Any]:
    """Raises UntranslatableRequest."""
    if not isinstance(value, list):
        raise UntranslatableRequest(f"{name} must be a list", name)
    return value


def check_text(value: Any, name: str) -> str:
    """Raises UntranslatableRequest."""
    if not isinstance(value, str):
        raise UntranslatableRequest(f"{name} must be text", name)
    return value


def join_parts(parts: Sequence[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """The content of a message: a single text as text, which every template reads."""
    only = parts[0] if len(parts) == 1 else {}
    return only["text"] if only.get("type") == "text" else list(parts)


def add_call(messages: list[dict[str, Any]], call: dict[str, Any]) -> None:
    """Adds a call of a tool to the assistant's turn that goes on; where none does, it begins one."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    messages[-1].setdefault("tool_calls", []).append(call)
