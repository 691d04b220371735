"""How an answer stands behind a prompt: what the model generates before its words, and the token that ends its turn.

A prompt is what a server makes of the messages, with the opening of the assistant's turn; it is never looked for in a whole
conversation, which many templates write otherwise. What is learned is what the model would have to generate from there:
found out from two tiny chats, and the same behind every prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from os.path import commonprefix
from typing import Final

from transformers import PreTrainedTokenizerBase

from rl.base.errors import UsageError
from rl.lm.chat.template import Chat, ChatRefused, ChatTemplate, TemplateRefused

_QUESTION: Final = {"role": "user", "content": "?"}
_MARK: Final = "zqanswered"
_ANSWER: Final = {"role": "assistant", "content": _MARK}
_BEGUN = re.compile(r"(<|\[)(think|thinking|thought|reasoning|THINK)(>|\])\s*\Z")
_ANCHOR: Final = 32
"""Characters of a prompt that are read before an answer: some tokenizers begin a text otherwise than they go on."""


class AnswerForm:
    """Belongs to one tokenizer's chat template, with or without thoughts."""

    lead: str
    """What stands between a prompt and the words of an answer."""
    end: str
    """What ends the turn, with the blanks before it; the end of the text where the template says nothing."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, thinks: bool = False) -> None:
        """Raises UsageError for a tokenizer without an end of text."""
        if tokenizer.eos_token is None:
            raise UsageError("the model's tokenizer has no end-of-text token (eos_token), so no turn would end")
        self._tokenizer, self._template = tokenizer, ChatTemplate(tokenizer, thinks)
        # where it writes no answers, words and the end of the text follow a prompt
        self.lead, self.end = "", str(tokenizer.eos_token)
        try:
            opened = self._template.render([_QUESTION], opening=True)
            before, mark, alone = self._template.render([_QUESTION, _ANSWER]).partition(_MARK)
            followed = self._template.render([_QUESTION, _ANSWER, _QUESTION]).partition(_MARK)[2]
        except TemplateRefused:
            return  # it takes questions alone
        if mark:
            self.lead, self.end = _lead(opened, before), self._end(alone, followed) or self.end

    def prompt(self, messages: Chat) -> str | ChatRefused:
        """What a server makes of the messages."""
        try:
            return self._template.render(messages, opening=True)
        except TemplateRefused as refused:
            return ChatRefused(f"the model's chat template refuses a prompt: {refused}")

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"] if texts else []
        return ids

    def behind(self, pairs: Sequence[tuple[str, str]]) -> list[list[int]]:
        """``pairs``: a prompt and the words of an answer. The ids of each answer: the lead, the words as they are, and the
        end of the turn."""
        anchors = [prompt[-_ANCHOR:] for prompt, _ in pairs]
        texts = [f"{self.lead}{answer}{self.end}" for _, answer in pairs]
        joined = self.tokens([anchor + text for anchor, text in zip(anchors, texts, strict=True)])
        heads = self.tokens(anchors)
        # where the last token of the prompt and the first of the answer would be one, each is read alone
        return [
            ids[len(head) :] if ids[: len(head)] == head else self.tokens([text])[0]
            for ids, head, text in zip(joined, heads, texts, strict=True)
        ]

    @property
    def shown_lead(self) -> str:
        """The lead as it stands in a text without special tokens: the name of a channel, the end of an empty thought."""
        return str(self._tokenizer.decode(self.tokens([self.lead])[0], skip_special_tokens=True)) if self.lead else ""

    @property
    def end_id(self) -> int:
        """The token that ends a turn."""
        return self.tokens([self.end])[0][-1]

    def _end(self, alone: str, followed: str) -> str:
        """Up to the last special token that a template writes behind an answer whatever comes next, or else behind the last
        answer of a chat; the end of text where it writes none."""
        added = self._tokenizer.added_tokens_decoder.values()
        special = sorted((token.content for token in added if token.special), key=len, reverse=True)
        pattern = re.compile("|".join(map(re.escape, special)) or r"(?!)")
        for text in (commonprefix([alone, followed]), alone):
            if ends := [match.end() for match in pattern.finditer(text)]:
                return text[: ends[-1]]
        return ""


def _lead(opened: str, before: str) -> str:
    """``opened``: a prompt with the opening of a turn; ``before``: what a template writes before the words of an answer."""
    shared = commonprefix([opened, before])
    if shared == opened:
        return before[len(opened) :]
    if begun := _BEGUN.search(opened):
        return f"\n{begun[1]}/{begun[2]}{begun[3]}\n\n"  # the server opens a thought, and this answer has none
    return ""


@lru_cache(maxsize=4)
def answer_form(tokenizer: PreTrainedTokenizerBase, thinks: bool = False) -> AnswerForm:
    """Finding it out takes longer than a row."""
    return AnswerForm(tokenizer, thinks)
