"""Chats that are one text, with marks of who speaks: cut between turns, and never inside one.

Anthropic's ``Human:`` and ``Assistant:`` after an empty line, the same after one line break or ``###``, Open-Assistant's
``<|prompter|>``, ChatML's ``<|im_start|>user``.
"""

from __future__ import annotations

import re

_ROLES = {"human": "user", "user": "user", "prompter": "user", "assistant": "assistant", "system": "system"}
_WHO = "(Human|User|Assistant|System)"
_MARKS = tuple(
    re.compile(mark)
    for mark in (
        rf"(?:\A|\n\n){_WHO}:",
        rf"(?:\A|\n){_WHO}:",
        rf"### ?{_WHO}:",
        r"<\|(prompter|user|human|assistant|system)\|>",
        r"<\|im_start\|>(user|assistant|system)(?:\n|\Z)",
    )
)
_ENDS = re.compile(r"\s*(?:<\|endoftext\|>|<\|im_end\|>|<\|end\|>|</s>)\s*\Z")
_RENDERED = re.compile(r"<\|im_start\|>|\[/INST\]|<\|start_header_id\|>|<start_of_turn>|### Response:|<\|assistant\|>")


def turns_of(text: str) -> list[dict[str, str]] | None:
    """Messages of a text that begins with the mark of a user or of the system and has one of an assistant; None for any
    other. A last turn of the assistant without words, after which its answer is to come, is left out."""
    if "ssistant" not in text:
        return None
    text = text.strip()
    for mark in _MARKS:
        before, *parts = mark.split(text)
        turns = [
            {"role": _ROLES[who.lower()], "content": _ENDS.sub("", words).strip()}
            for who, words in zip(parts[::2], parts[1::2], strict=True)
        ]
        roles = [turn["role"] for turn in turns]
        if not before.strip() and "assistant" in roles[1:] and roles[0] != "assistant" and "user" in roles:
            return turns if turns[-1]["role"] != "assistant" or turns[-1]["content"] else turns[:-1]
    return None


def is_rendered(text: str) -> bool:
    """Has a chat template written it?"""
    return bool(_RENDERED.search(text))
