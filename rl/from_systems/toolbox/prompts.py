"""Prompts as ToolBoxV2's data sets have them: one text, ``System\n\nUser: query``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rl.base.records import Message

_USER = "User: "
_BETWEEN = f"\n\n{_USER}"


def prompt_text(query: str, system_prompt: str = "") -> str:
    return f"{system_prompt}{_BETWEEN}{query}" if system_prompt else f"{_USER}{query}"


def text_of(messages: Sequence[Message]) -> str:
    """Earlier questions and answers stand before the last one, each with who said it."""
    names = {"user": "User: ", "assistant": "Assistant: "}
    return "\n\n".join(f"{names.get(message['role'], '')}{message['content']}" for message in messages)


def messages_of(prompt: Any) -> list[Message]:
    """Back to messages; a prompt that is a list of messages stays what it is."""
    if not isinstance(prompt, str):
        return list(prompt)
    system, between, query = prompt.partition(_BETWEEN)
    if not between:
        return [Message(role="user", content=prompt.removeprefix(_USER))]
    return [Message(role="system", content=system), Message(role="user", content=query)]
