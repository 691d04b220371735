"""How a model is made to call tools: which style its chats have, and who reads back what it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from transformers import PreTrainedTokenizerBase

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects import DIALECTS, dialect, unreadable, without_thinking
from rl.environments.dialects.hermes import read_action
from rl.lm.chat.library import LibraryReader, response_template
from rl.lm.chat.styles import Native, Plain, Style
from rl.lm.chat.template import TOOL, TOOL_NAME, ChatTemplate, TemplateRefused
from rl.lm.chat.tokens import ChatTokens
from rl.lm.chat.turns import Turns

Tools = Sequence[Mapping[str, Any]]
_PROBE = ToolRequest(TOOL_NAME, {"query": 'say "1 & 2"\nand <b>', "most": 3})
_EXAMPLE = ToolRequest("name", {"argument": "value"})


@dataclass(frozen=True, slots=True)
class Way:
    name: str
    style: Style
    turns: Turns
    read: Callable[[str, Tools], Action]
    write: Callable[[Sequence[ToolRequest]], str] | None
    """Several calls, where the template writes one at most; None where nobody can."""


def choose_way(
    tokenizer: PreTrainedTokenizerBase, template: ChatTemplate, tokens: ChatTokens, policy_type: str, speaks: bool
) -> Way:
    def turns(style: Style) -> Turns:
        return Turns(template, style, tokens.markers, tokenizer.eos_token)

    if policy_type in ("auto", "template"):
        reasons = []
        for style in (Native(), Native(as_text=True)):
            try:
                return _native(tokenizer, style, turns(style), speaks)
            except TemplateRefused as refused:
                reasons.append(str(refused))
        if policy_type == "template":
            reason = f"the model's chat template cannot be used for tools: {reasons[0]}"
            raise UsageError(f"{reason}; choose policy_type plain")
    elif policy_type not in ("plain", "minimind"):
        raise UsageError(unknown_name("policy_type", policy_type, ("auto", "template", "plain", "minimind")))
    plain = Plain()
    try:
        return Way("plain", plain, plain_turns := turns(plain), _aloud(read_action, plain_turns), None)
    except TemplateRefused as refused:
        raise UsageError(f"the model's chat template cannot write a chat: {refused}") from refused


def _native(tokenizer: PreTrainedTokenizerBase, style: Style, turns: Turns, speaks: bool) -> Way:
    """The template's own way to write calls, with the first reader that reads one back. Raises TemplateRefused."""
    call_text = turns.write("", [_PROBE]).removesuffix(turns.call_end)
    for name in DIALECTS:
        read = _aloud(dialect(name).read_action, turns)
        if read(call_text, ()).calls == (_PROBE,):
            return Way(name, style, turns, read, dialect(name).write_calls)
    if schema := response_template(tokenizer):
        example = without_thinking(turns.write("", [_EXAMPLE]).removesuffix(turns.call_end))
        library = LibraryReader(tokenizer, schema, turns.opening, example, example.partition(_EXAMPLE.name)[0].strip())
        if library(call_text, [TOOL]).calls == (_PROBE,):
            return Way("library", style, turns, library, None)
    if speaks:
        raise TemplateRefused("nobody knows how to read the calls that it writes")
    shape = turns.write("", [_EXAMPLE])
    return Way("template", style, turns, partial(_read_no_call, shape, shape.partition(_EXAMPLE.name)[0].strip()), None)


def _read_no_call(shape: str, beginning: str, text: str, tools: Tools) -> Action:
    words, begun, _ = text.partition(beginning) if beginning else (text, "", "")
    return unreadable(words.strip(), "nobody knows this way", shape) if begun else Action(text.strip())


def _aloud(read: Callable[[str], Action], turns: Turns) -> Callable[[str, Tools], Action]:
    begun = "<think>" if turns.thinks_first else ""
    return lambda text, _: read(without_thinking(begun + text))
