"""What a model says, put together from the pieces of a stream or taken from a whole completion."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rl.collect.limits import MAX_WHOLE_NUMBER
from rl.collect.otlp.spans import Requested
from rl.serving.gateway.chat_request import parse_tool_calls

_THOUGHTS: Final = ("reasoning_content", "reasoning")
"""Where llama.cpp and vLLM, and where Ollama and newer vLLM say what the model thinks."""
_HALVES: Final = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class Choice:
    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    """{index, id, name, arguments}"""
    finish_reason: str = ""

    def take(self, message: dict[str, Any]) -> None:
        """A delta, or a whole message."""
        for name in ("content", "refusal"):
            _append(self.text, message.get(name))
        _append(self.thoughts, next((message[name] for name in _THOUGHTS if message.get(name)), None))
        calls = message.get("tool_calls")
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                self._take_call(call, index)

    def _take_call(self, delta: dict[str, Any], position: int) -> None:
        """The first piece of a call has its id and name, and some servers give every call the index 0."""
        index = delta.get("index", position)
        call_id, function = delta.get("id"), delta.get("function")
        call_id = call_id if isinstance(call_id, str) else ""
        call = next((known for known in reversed(self.calls) if known["index"] == index), None)
        if call is None or (call_id and call["id"] and call_id != call["id"]):
            call = {"index": index, "id": "", "name": "", "arguments": ""}
            self.calls.append(call)
        call["id"] = call["id"] or call_id
        for name in ("name", "arguments"):
            piece = function.get(name) if isinstance(function, dict) else None
            call[name] += piece if isinstance(piece, str) else ""

    def tool_calls(self) -> list[Requested]:
        return parse_tool_calls(
            [
                {"id": clean(call["id"]), "function": {name: clean(call[name]) for name in ("name", "arguments")}}
                for call in self.calls
            ]
        )

    @property
    def says_something(self) -> bool:
        return bool(self.text or self.thoughts or self.calls or self.finish_reason)


@dataclass(slots=True)
class Answer:
    choices: dict[int, Choice] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    first_at: float | None = None
    """``time.monotonic()`` of the first piece that says something."""
    complete: bool = False
    error: str = ""

    def take(self, piece: dict[str, Any]) -> None:
        """A chunk of a stream, or a whole completion."""
        if isinstance(usage := piece.get("usage"), dict):
            self.usage = usage
        for document in _choices(piece):
            index = document.get("index", 0)
            choice = self.choices.setdefault(index if isinstance(index, int) else 0, Choice())
            message = document.get("delta", document.get("message"))
            choice.take(message if isinstance(message, dict) else {})
            if isinstance(reason := document.get("finish_reason"), str):
                choice.finish_reason = clean(reason)[:100]
        if self.first_at is None and self.says_something:
            self.first_at = time.monotonic()

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


def _append(pieces: list[str], piece: object) -> None:
    if isinstance(piece, str) and piece:
        pieces.append(piece)
