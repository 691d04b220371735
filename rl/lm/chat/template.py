"""A tokenizer's chat template, and what it does to system messages and tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from rl.base.errors import UsageError
from rl.base.template_settings import template_settings

Chat = Sequence[Mapping[str, Any]]
TOOL_NAME = "lookup7"
TOOL = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Looks it up.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What."},
                "most": {"type": "integer", "description": "How many."},
            },
            "required": ["query"],
        },
    },
}
"""What templates are tried with."""


class TemplateRefused(Exception):
    """A conversation, or a part of it that does not come out."""


class ChatRefused(UsageError):
    """A chat that somebody has had cannot be written for this model, while others can."""


class ChatTemplate:
    def __init__(self, tokenizer: PreTrainedTokenizerBase, thinks: bool = False) -> None:
        """``thinks``: whether an answer begins with thoughts, where the template can say so. Raises UsageError for a
        tokenizer without one."""
        self._tokenizer, self._settings = tokenizer, template_settings(thinks)
        try:
            self.source = str(tokenizer.get_chat_template(tools=[TOOL]))
        except ValueError as error:
            raise UsageError(f"the model has no chat template that can be used: {error}") from None
        self._takes_parts = not self._shows("zqtext", [_message("user", "zqtext")])
        self._takes_system = self._shows("zqsystem", [_message("system", "zqsystem"), _message("user", "?")])

    def render(self, chat: Chat, tools: Chat = (), opening: bool = False) -> str:
        """``opening``: with the beginning of the assistant's next turn. A system message that the template would refuse or
        drop stands at the head of the user's first message; where it would refuse messages of the user in a row, they
        become one. Raises TemplateRefused."""
        messages = list(chat) if self._takes_system else _without_system(chat)
        try:
            return self._render(messages, tools, opening)
        except TemplateRefused:
            merged = _merge_users(messages)
            if len(merged) == len(messages):
                raise
            return self._render(merged, tools, opening)

    def _render(self, messages: Chat, tools: Chat = (), opening: bool = False) -> str:
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    [_in_parts(message) for message in messages] if self._takes_parts else messages,
                    tools=list(tools) or None,
                    add_generation_prompt=opening,
                    tokenize=False,
                    **self._settings,
                )
            )
        except Exception as error:  # a template is a program of its own
            raise TemplateRefused(str(error) or type(error).__name__) from error

    _takes_parts = False
    """Templates of models that see write texts only as parts."""

    def _shows(self, text: str, chat: Chat) -> bool:
        try:
            return text in self._render(chat)
        except TemplateRefused:
            return False


def _without_system(chat: Chat) -> list[Mapping[str, Any]]:
    if not chat or chat[0]["role"] != "system":
        return list(chat)
    instructions, *rest = chat
    if not rest or rest[0]["role"] != "user":
        return [_message("user", instructions["content"]), *rest]
    return [_message("user", f"{instructions['content']}\n{rest[0]['content']}"), *rest[1:]]  # as llama.cpp does


def _merge_users(chat: Chat) -> list[Mapping[str, Any]]:
    """Messages of the user that follow each other, as one."""
    merged: list[Mapping[str, Any]] = []
    for message in chat:
        if merged and message["role"] == merged[-1]["role"] == "user":
            merged[-1] = _message("user", f"{merged[-1]['content']}\n\n{message['content']}")
        else:
            merged.append(message)
    return merged


def _in_parts(message: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**message, "content": [{"type": "text", "text": message.get("content") or ""}]}


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
