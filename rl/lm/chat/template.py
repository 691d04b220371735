"""A tokenizer's chat template, what it does to system messages and tools, and how it writes an answer."""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from os.path import commonprefix
from typing import Any, Final

from transformers import PreTrainedTokenizerBase

from rl.base.errors import UsageError
from rl.base.template_settings import SWITCH, template_settings
from rl.lm.chat.tokens import any_of

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
    _takes_parts = False
    """Templates of models that see write texts only as parts."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raises UsageError for a tokenizer without one."""
        self._tokenizer = tokenizer
        self.thinks = bool(tokenizer.init_kwargs.get(SWITCH))
        """Whether the model thinks before it answers, where the template has a switch: a setting of the tokenizer."""
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
        if self._takes_parts:
            parts = ([{"type": "text", "text": message.get("content") or ""}] for message in messages)
            messages = [{**message, "content": part} for message, part in zip(messages, parts, strict=True)]
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    messages,
                    tools=list(tools) or None,
                    add_generation_prompt=opening,
                    tokenize=False,
                    **template_settings(self.thinks),
                )
            )
        except Exception as error:  # a template is a program of its own
            raise TemplateRefused(str(error) or type(error).__name__) from error

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


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


_QUESTION: Final = {"role": "user", "content": "?"}
_MARK: Final = "zqanswered"
_ANSWER: Final = {"role": "assistant", "content": _MARK}
_BEGUN = re.compile(r"(<|\[)(think|thinking|thought|reasoning|THINK)(>|\])\s*\Z")
_THOUGHT: Final = "zqthought"
_KEYS: Final = ("reasoning_content", "reasoning", "thinking")
"""What templates call the thoughts of a message."""
_INLINE: Final = ("<|channel>thought\n", "\n<channel|>")
"""Gemma's marks of a thought."""
_ANCHOR: Final = 32
"""Characters of a prompt that are read before an answer: some tokenizers begin a text otherwise than they go on."""


class AnswerFrame:
    """How an answer stands behind a prompt: what the model generates before its words, and what ends its turn. A prompt is
    what a server makes of the messages, with the opening of the assistant's turn; it is never looked for in a whole
    conversation, which many templates write otherwise. What is learned is what the model would have to generate from there:
    found out from two tiny chats, and the same behind every prompt."""

    lead: str
    """What stands between a prompt and the words of an answer."""
    end: str
    """What ends the turn, with the blanks before it; the end of the text where the template says nothing."""
    thought: tuple[str, str] | None = None
    """What stands before and behind a thought, between the prompt and the words; None where the template has none."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raises UsageError for a tokenizer without an end of text."""
        if tokenizer.eos_token is None:
            raise UsageError("the model's tokenizer has no end-of-text token (eos_token), so no turn would end")
        self._tokenizer, self._template = tokenizer, ChatTemplate(tokenizer)
        # where it writes no answers, words and the end of the text follow a prompt
        self.lead, self.end = "", str(tokenizer.eos_token)
        try:
            opened = self._template.render([_QUESTION], opening=True)
            before, mark, alone = self._template.render([_QUESTION, _ANSWER]).partition(_MARK)
            followed = self._template.render([_QUESTION, _ANSWER, _QUESTION]).partition(_MARK)[2]
        except TemplateRefused:
            return  # it takes questions alone
        if mark:
            # lead: what the template writes behind the opening of a turn and before the words of an answer
            begun = _BEGUN.search(opened)
            self.thought = self._find_thought(opened, begun)
            if before.startswith(opened):
                self.lead = before[len(opened) :]
            elif begun and self.thought:  # the server opens a thought, and this answer has none
                self.lead = self.thought[1]
            self.end = self._end(alone, followed) or self.end

    def prompt(self, messages: Chat) -> str | ChatRefused:
        """What a server makes of the messages."""
        try:
            return self._template.render(messages, opening=True)
        except TemplateRefused as refused:
            return ChatRefused(f"the model's chat template refuses a prompt: {refused}")

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"] if texts else []
        return ids

    @property
    def drops_thoughts(self) -> bool:
        """The model is to think, and nobody knows how it writes that."""
        return self._template.thinks and self.thought is None

    def behind(self, answers: Sequence[tuple[str, str, str]]) -> list[list[int]]:
        """``answers``: a prompt, the words of an answer, and what was thought before it. The ids of each answer: the lead
        or the thought, the words as they are, and the end of the turn."""
        anchors = [prompt[-_ANCHOR:] for prompt, _, _ in answers]
        texts = [f"{self._before(thought)}{words}{self.end}" for _, words, thought in answers]
        joined = self.tokens([anchor + text for anchor, text in zip(anchors, texts, strict=True)])
        heads = self.tokens(anchors)
        # where the last token of the prompt and the first of the answer would be one, each is read alone
        return [
            ids[len(head) :] if ids[: len(head)] == head else self.tokens([text])[0]
            for ids, head, text in zip(joined, heads, texts, strict=True)
        ]

    def _before(self, thought: str) -> str:
        return thought.join(self.thought) if thought and self.thought and self._template.thinks else self.lead

    def words(self, ids: Sequence[int]) -> str:
        """What was generated, without its thought and what stands before an answer."""
        behind = self.thought[1] if self.thought else ""
        blanks = behind[len(behind.rstrip()) :]
        return self._decode(self.behind_thought(ids)).removeprefix(self.shown_lead).removeprefix(blanks)

    def behind_thought(self, ids: Sequence[int]) -> Sequence[int]:
        """What was generated behind a thought: nothing where the thought has no end."""
        if not self.thought:
            return ids
        before, behind = (mark.strip() for mark in self.thought)
        whole = self._decode(ids, special=True)
        if behind not in whole:
            return ids if before and before not in whole else ()
        lengths = range(len(ids) + 1)
        return ids[bisect_left(lengths, True, key=lambda length: behind in self._decode(ids[:length], special=True)) :]

    def _decode(self, ids: Sequence[int], special: bool = False) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=not special))

    @property
    def shown_lead(self) -> str:
        """The lead as it stands in a text without special tokens: the name of a channel, the end of an empty thought."""
        return self._decode(self.tokens([self.lead])[0]) if self.lead else ""

    @property
    def end_id(self) -> int:
        """The token that ends a turn."""
        return self.tokens([self.end])[0][-1]

    def _find_thought(self, opened: str, begun: re.Match[str] | None) -> tuple[str, str] | None:
        """As the template writes what a message says of its thoughts; else by the thought that the server opens, or by marks
        that the template takes out of what was said."""
        written, marked = "", ""
        with suppress(TemplateRefused):
            written = self._template.render([_QUESTION, {**_ANSWER, **dict.fromkeys(_KEYS, _THOUGHT)}])
            marked = self._template.render([_QUESTION, {**_ANSWER, "content": f"{_THOUGHT.join(_INLINE)}{_MARK}"}])
        before, mark, rest = written.partition(_THOUGHT)
        behind, words, _ = rest.partition(_MARK)
        if mark and words and (begun or before.startswith(opened)):
            return "" if begun else before[len(opened) :], behind
        if begun:
            return "", f"\n{begun[1]}/{begun[2]}{begun[3]}\n\n"
        return None if _THOUGHT in marked or _MARK not in marked else _INLINE

    def _end(self, alone: str, followed: str) -> str:
        """Up to the last special token that a template writes behind an answer whatever comes next, or else behind the last
        answer of a chat; the end of text where it writes none."""
        added = self._tokenizer.added_tokens_decoder.values()
        pattern = any_of(token.content for token in added if token.special)
        for text in (commonprefix([alone, followed]), alone):
            if ends := [match.end() for match in pattern.finditer(text)]:
                return text[: ends[-1]]
        return ""


@lru_cache(maxsize=4)
def answer_form(tokenizer: PreTrainedTokenizerBase) -> AnswerFrame:
    """Finding it out takes longer than a row."""
    return AnswerFrame(tokenizer)
