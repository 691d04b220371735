"""What programs ask for, and what they are answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
class ChatRequest:
    """One chat completion that a program asks for."""

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
    """How an episode ended."""

    reward: float | None
    """None where nothing can be said about the model."""
    success: bool
    reason: str
    """One sentence for people."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """JSON. ``failed``: how the program itself failed, where it did; ``crashed``: whether that says nothing of the task."""
