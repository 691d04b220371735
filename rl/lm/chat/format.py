"""How any chat model writes and reads conversations with tools, as token ids."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any

from transformers import PreTrainedTokenizerBase

from rl.base.errors import UsageError
from rl.base.messages import has_calls
from rl.base.records import Message
from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects.plain import Round, guard_result, rounds_of
from rl.environments.program.openai_chat import ChatMessage
from rl.lm.chat.template import Chat, ChatRefused, ChatTemplate, TemplateRefused
from rl.lm.chat.tokens import ChatTokens
from rl.lm.chat.ways import Tools, choose_way
from rl.lm.own_tokens import of_others, without_rest

_MORE_ENDS = ("<|eom_id|>", "<|endoftext|>", "<|end_of_text|>")
"""Tokens that end turns too, though chat templates do not write them; Llama ends calls of tools with the first."""


class ChatFormat:
    def __init__(self, tokenizer: PreTrainedTokenizerBase, policy_type: str = "auto", *, speaks: bool = True) -> None:
        """``policy_type``: as in AgentConfig; ``speaks``: whether calls that the model makes have to be read, and not only
        written as a server writes them. Raises UsageError for a model that cannot be talked to in this way."""
        if tokenizer.eos_token is None:
            raise UsageError("the model's tokenizer has no end-of-text token (eos_token), so no turn would end")
        self.dropped_texts = 0
        """Turns whose words beside a call the template has not written."""
        self._template = ChatTemplate(tokenizer)
        self._tokens = ChatTokens(tokenizer, self._template.source)
        self._way = choose_way(tokenizer, self._template, self._tokens, policy_type, speaks)
        # ends of turns as token ids: the template's, the tokenizer's, and some that templates do not write
        numbers = {**self._tokens.numbers, tokenizer.eos_token: tokenizer.eos_token_id}
        turns = self._way.turns
        self.end_ids = frozenset(
            numbers[end]
            for end in (turns.call_end, turns.answer_end, tokenizer.eos_token, *_MORE_ENDS)
            if end in numbers
        )
        """Tokens after which a turn is over."""
        self._call_ends = {numbers[end] for end in (turns.call_end, "<|eom_id|>") if end in numbers}
        self._answer_ends = {numbers[end] for end in (turns.answer_end,) if end in numbers}
        self._silent = self.end_ids | {tokenizer.pad_token_id} | {numbers[marker] for marker in turns.endings}

    @property
    def name(self) -> str:
        """hermes, llama, mistral, library, plain, or template: written by the template, and read by nobody."""
        return self._way.name

    def prompt_ids(self, messages: Sequence[Message], tools: Tools) -> list[int]:
        """The chat and the opening of the assistant's turn. Raises UsageError for a chat that the template refuses."""
        # tasks come from anywhere; instructions, and what was said in turns, are ours
        foreign = ("user", "tool")
        hidden = [
            Message({**message, "content": self._tokens.hide(message["content"])})
            if message["role"] in foreign
            else message
            for message in messages
        ]
        return self._opened_ids(self._history(hidden), tools, "a prompt")

    def conversation_ids(self, messages: Sequence[ChatMessage], tools: Tools) -> list[int]:
        """A chat that somebody else wrote, with calls and results in it, and the opening of the assistant's turn. Raises
        UsageError as ``prompt_ids``."""
        return self._opened_ids(self._template_messages(messages), tools, "the messages")

    def _opened_ids(self, messages: Chat, tools: Tools, what: str) -> list[int]:
        chat, offered = self._way.style.prompt(messages, tools)
        try:
            return self._tokens.ids(self._template.render(chat, offered, opening=True))
        except TemplateRefused as refused:
            raise ChatRefused(f"the model's chat template refuses {what}: {refused}") from refused

    def reply_ids(self, messages: Sequence[ChatMessage], last: Sequence[int]) -> list[int] | None:
        """As ``observation_ids``, for whatever messages came after the generated turn ``last``. None where the template
        cannot go on with them: then the whole conversation has to be written again."""
        calls = self.action(last, ()).calls
        results = list(takewhile(lambda message: message.role == "tool", messages))
        more = self._template_messages(messages[len(results) :])
        turns = self._way.turns
        try:
            if not calls and not results:
                is_ended = bool(last) and last[-1] in self._answer_ends
                return self._tokens.ids(turns.write_after_answer(more, with_end=not is_ended))
            if len(calls) != len(results):
                return None
            texts = [self._tokens.hide(guard_result(result.content)) for result in results]
            names = [self._tokens.hide(result.name) for result in results]
            is_ended = last[-1] in self._call_ends
            return self._tokens.ids(turns.write_observations(texts, names, not is_ended, more))
        except TemplateRefused:
            return None

    def action(self, ids: Sequence[int], tools: Tools) -> Action:
        """What one generated turn, its end token included or not, says and calls. Never raises."""
        return self._way.read(self._decode(ids), tools)

    def turn_text(self, ids: Sequence[int]) -> str:
        """A turn's text with its tool calls, without its end, for people and logs."""
        return self._decode(ids).strip()

    def turn_ids(self, action: Action, thought: str = "") -> list[int]:
        """A demonstrated turn as the model would generate it, end token included. ``thought``: what went before it, which is
        written where the model thinks. Raises UsageError for one that the model
        cannot say, such as several calls where it makes one at a time."""
        turns, text = self._way.turns, self._hide_special(action.text)
        calls = [self._hide_arguments(call) for call in action.calls]
        try:
            if len(calls) > 1 and not turns.several:
                if self._way.write is None:
                    raise ChatRefused(f"the model calls one tool in a turn, not {len(calls)}")
                return self._tokens.ids(turns.join(self._way.write(calls)))
            written = turns.write(text, calls, self._hide_special(thought) if self._template.thinks else "")
            self.dropped_texts += text.strip() not in written
            return self._tokens.ids(written)
        except TemplateRefused as refused:
            raise ChatRefused(f"the model's chat template refuses a turn: {refused}") from refused

    def observation_ids(
        self, observations: Sequence[str], last: Sequence[int], tools: Sequence[str] | None = None
    ) -> list[int]:
        """What comes after the generated turn ``last``, which has its end token or was cut, up to and with the opening of
        the next turn. ``observations``: what each call of the turn brought, or one text for all of it; ``tools``: the names
        of those that it called, where they are known."""
        # a turn that was cut off, or that ended as an answer does, gets the end of a call first
        is_ended = bool(last) and last[-1] in self._call_ends
        texts = [self._tokens.hide(guard_result(observation)) for observation in observations]
        # the names of the tools, where observations must have them
        if tools is None:
            tools = [call.name for call in self.action(last, ()).calls] if self._way.turns.names_tools else []
            if len(tools) != len(texts):
                tools = [*(tools or ["unknown"])[-1:]] * len(texts)
        names = list(map(self._tokens.hide, tools))
        return self._tokens.ids(self._way.turns.write_observations(texts, names, with_end=not is_ended))

    def _template_messages(self, messages: Sequence[ChatMessage]) -> list[Mapping[str, Any]]:
        """With stand-ins for markers; system messages may have markers that are not special tokens."""
        chat: list[Mapping[str, Any]] = []
        for is_result, run in groupby(messages, key=lambda message: message.role == "tool"):
            if is_result:
                pairs = [(self._tokens.hide(guard_result(m.content)), self._tokens.hide(m.name)) for m in run]
                chat += self._way.style.observations(*zip(*pairs, strict=True))
                continue
            for message in run:
                text = self._tokens.hide(message.content, all_markers=message.role == "user")
                if message.role == "assistant":
                    chat.append(self._way.style.turn(text, list(map(self._hide_arguments, message.calls))))
                else:
                    chat.append({"role": message.role, "content": text})
        return chat

    def answer_ids(self, messages: Sequence[Message]) -> list[int]:
        """What follows a prompt, up to the end of the assistant's last turn: its turns as it would generate them, and, as
        complements (``rl.lm.own_tokens``), the results of its calls and the words of others. Raises UsageError."""
        ids: list[int] = []
        last: list[int] = []
        turns = self._way.turns
        can_call_several = turns.several or self._way.write is not None
        for part in self._rounds(messages, can_call_several):
            if isinstance(part, Round):
                last = self.turn_ids(part.action, part.thought.strip())
                ids += last
                names = [call.name for call in part.action.calls]
                ids += of_others(self.observation_ids(part.results, last, names)) if part.results else []
            else:
                # what a user says after a turn that called no tool
                is_ended = bool(last) and last[-1] in self.end_ids
                question = turns.write_question(self._tokens.hide(part["content"]), with_end=not is_ended)
                ids += of_others(self._tokens.ids(question))
        return without_rest(ids)

    def _rounds(self, messages: Sequence[Message], several: bool) -> list[Round | Message]:
        try:
            return rounds_of(messages, several=several)
        except ValueError as error:
            raise ChatRefused(f"a conversation has a tool call that cannot be read: {error}") from error

    def _history(self, messages: Sequence[Message]) -> list[Mapping[str, Any]]:
        """Messages with tool calls in the words of the model's own way to call tools."""
        if not has_calls(messages):
            return list(messages)
        chat: list[Mapping[str, Any]] = []
        for part in self._rounds(messages, self._way.turns.several):
            if not isinstance(part, Round):
                chat.append(part)
                continue
            calls = [self._hide_arguments(call) for call in part.action.calls]
            chat.append(self._way.style.turn(part.action.text, calls))
            names = [call.name for call in part.action.calls]
            chat += self._way.style.observations(list(map(guard_result, part.results)), names) if part.results else []
        return chat

    def _decode(self, ids: Sequence[int]) -> str:
        body = list(ids)
        while body and body[-1] in self._silent:
            body.pop()
        return self._tokens.text(body)

    def _hide_arguments(self, call: ToolRequest) -> ToolRequest:
        return ToolRequest(call.name, _map_texts(call.arguments, self._hide_special))

    def _hide_special(self, text: str) -> str:
        return self._tokens.hide(text, all_markers=False)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The JSON value with every text in it but the keys changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_texts(part, change) for key, part in value.items()}
    return [_map_texts(part, change) for part in value] if isinstance(value, (list, tuple)) else value
