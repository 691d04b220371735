"""Prompts that are one text with marks of who speaks: ``<|system|>``, ``<|user|>``, ``<|assistant|>``."""

from __future__ import annotations

import re

from rl.base.records import Message

_MARK = re.compile(r"^<\|(system|user|assistant)\|>[ \t]*\n?", re.MULTILINE)


def messages_of(prompt: str) -> list[Message]:
    """A text that begins with a mark as its messages, without those that are empty, such as the answer that is to come; any
    other text as one message of the user."""
    if not _MARK.match(prompt.lstrip()):
        return [Message(role="user", content=prompt)]
    _, *parts = _MARK.split(prompt.lstrip())
    spoken = zip(parts[::2], parts[1::2], strict=True)
    return [Message(role=role, content=text.strip()) for role, text in spoken if text.strip()]
