"""What a chat template is given: tools, turns and observations as its own kinds of messages, or as plain text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects import plain
from rl.lm.chat.template import Chat


class Style(Protocol):
    def prompt(self, chat: Chat, tools: Chat) -> tuple[Chat, Chat]:
        """The messages and the tools for the template."""

    def turn(self, text: str, calls: Sequence[ToolRequest]) -> dict[str, Any]: ...

    def observations(self, results: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
        """The messages after a turn's calls. ``names``: of the tools."""


class Native:
    """The template knows tools."""

    def __init__(self, *, as_text: bool = False) -> None:
        """``as_text``: the template takes arguments as JSON in a text, OpenAI's form, and not as an object."""
        self._as_text = as_text

    def prompt(self, chat: Chat, tools: Chat) -> tuple[Chat, Chat]:
        return chat, tools

    def turn(self, text: str, calls: Sequence[ToolRequest]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": _call_id(number), "type": "function", "function": self._function(call)}
                for number, call in enumerate(calls, 1)
            ]
        return message

    def _function(self, call: ToolRequest) -> Mapping[str, Any]:
        arguments = dict(call.arguments)
        return {
            "name": call.name,
            "arguments": json.dumps(arguments, ensure_ascii=False) if self._as_text else arguments,
        }

    def observations(self, results: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
        return [
            {"role": "tool", "name": name, "tool_call_id": _call_id(number), "content": result}
            for number, (result, name) in enumerate(zip(results, names, strict=True), 1)
        ]


class Plain:
    """The template needs to know nothing but users and assistants."""

    def prompt(self, chat: Chat, tools: Chat) -> tuple[Chat, Chat]:
        return plain.with_tools(chat, tools), ()

    def turn(self, text: str, calls: Sequence[ToolRequest]) -> dict[str, Any]:
        return plain.turn(Action(text, tuple(calls)))

    def observations(self, results: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
        return [plain.results(results)]


def _call_id(number: int) -> str:
    """Mistral's templates take nine letters and digits and nothing else."""
    return f"call{number:05}"
