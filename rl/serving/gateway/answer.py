"""What a model says, put together from the pieces of a stream or taken from a whole completion.

Servers differ in how they write tool calls and parts of a text. What is taken is given back as OpenAI's clients put it
together, so that they show what is stored.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rl.base.messages import as_data
from rl.collect.limits import MAX_WHOLE_NUMBER
from rl.collect.otlp.messages import arguments_of, read_parts
from rl.collect.otlp.spans import Requested
from rl.serving.gateway.calls import Calls
from rl.serving.gateway.chat_request import parse_tool_calls

_THOUGHTS: Final = ("reasoning_content", "reasoning")
"""Where llama.cpp and vLLM, and where Ollama and newer vLLM say what the model thinks."""
_HALVES: Final = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class Choice:
    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: Calls = field(default_factory=Calls)
    finish_reason: str = ""

    def take(self, message: dict[str, Any], is_whole: bool = False) -> dict[str, Any]:
        """A delta, or a whole message; gives it back as OpenAI writes it."""
        if isinstance(message.get("content"), list):
            message = _without_parts(message)
        for name in ("content", "refusal"):
            _append(self.text, message.get(name))
        _append(self.thoughts, next((message[name] for name in _THOUGHTS if message.get(name)), None))
        return self.calls.take(message, is_whole)

    def tool_calls(self) -> list[Requested]:
        return parse_tool_calls(
            [
                {"id": clean(call.id), "function": {"name": clean(call.name), "arguments": clean(call.arguments)}}
                for call in self.calls.known
            ]
        )

    @property
    def says_something(self) -> bool:
        return bool(self.text or self.thoughts or self.calls.known or self.finish_reason)


@dataclass(slots=True)
class Answer:
    choices: dict[int, Choice] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    first_at: float | None = None
    """``time.monotonic()`` of the first piece that says something."""
    complete: bool = False
    error: str = ""

    def take(self, piece: dict[str, Any]) -> dict[str, Any]:
        """A chunk of a stream, or a whole completion; gives it back as OpenAI writes it."""
        if isinstance(usage := piece.get("usage"), dict):
            self.usage = usage
        taken = [self._take_choice(document) for document in _choices(piece)]
        if self.first_at is None and self.says_something:
            self.first_at = time.monotonic()
        return {**piece, "choices": taken} if taken else piece

    def _take_choice(self, document: dict[str, Any]) -> dict[str, Any]:
        index = document.get("index", 0)
        choice = self.choices.setdefault(index if isinstance(index, int) else 0, Choice())
        if isinstance(reason := document.get("finish_reason"), str):
            choice.finish_reason = clean(reason)[:100]
        name = "delta" if "delta" in document else "message"
        message = document.get(name)
        taken = choice.take(message if isinstance(message, dict) else {}, name == "message")
        return {**document, name: taken} if taken else document

    def tokens(self, name: str) -> int | None:
        """``prompt_tokens`` or ``completion_tokens``."""
        count = self.usage.get(name)
        fits = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MAX_WHOLE_NUMBER
        return count if fits else None

    @property
    def first(self) -> Choice:
        return self.choices.get(0, Choice())

    @property
    def says_something(self) -> bool:
        return any(choice.says_something for choice in self.choices.values())

    @property
    def is_finished(self) -> bool:
        """The model ended by itself or by a limit, each choice of it."""
        return bool(self.choices) and all(choice.finish_reason for choice in self.choices.values())


def clean(text: str) -> str:
    """Without what a database refuses. Halves of a character that came in two pieces are joined."""
    if _HALVES.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\x00", "")


def _choices(piece: dict[str, Any]) -> Iterator[dict[str, Any]]:
    choices = piece.get("choices")
    return (choice for choice in (choices if isinstance(choices, list) else ()) if isinstance(choice, dict))


def _without_parts(message: dict[str, Any]) -> dict[str, Any]:
    """Its text as text, and what it thinks and calls where OpenAI's clients look for that."""
    parts = read_parts(message["content"])
    made = {**message, "content": parts.text}
    if parts.thoughts:
        made["reasoning_content"] = "".join(parts.thoughts)
    if parts.calls:
        made["tool_calls"] = [as_data(call.name, arguments_of(call), call.id) for call in parts.calls]
    return made


def _append(pieces: list[str], piece: object) -> None:
    if isinstance(piece, str) and piece:
        pieces.append(piece)
