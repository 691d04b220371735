"""How a model is made to call tools: which style its chats have, and who reads back what it writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from transformers import PreTrainedTokenizerBase
from trl.chat_template_utils import add_response_schema

from rl.base.errors import UsageError
from rl.base.names import unknown_name
from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects import DIALECTS, action_of, dialect, request_of, unreadable, without_thinking
from rl.environments.dialects.hermes import read_action
from rl.lm.chat.template import TOOL, TOOL_NAME, ChatTemplate, TemplateRefused
from rl.lm.chat.tokens import ChatTokens
from rl.lm.chat.turns import Native, Plain, Style, TurnFormat

Tools = Sequence[Mapping[str, Any]]
Read = Callable[[str, Tools], Action]
"""What one turn says and calls. Never raises."""
_PROBE = ToolRequest(TOOL_NAME, {"query": 'say "1 & 2"\nand <b>', "most": 3})
_EXAMPLE = ToolRequest("name", {"argument": "value"})


@dataclass(frozen=True, slots=True)
class Way:
    name: str
    style: Style
    turns: TurnFormat
    read: Read
    write: Callable[[Sequence[ToolRequest]], str] | None
    """Several calls, where the template writes one at most; None where nobody can."""


def choose_way(
    tokenizer: PreTrainedTokenizerBase, template: ChatTemplate, tokens: ChatTokens, policy_type: str, speaks: bool
) -> Way:
    def turns(style: Style) -> TurnFormat:
        return TurnFormat(template, style, tokens.markers, tokenizer.eos_token)

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


def _native(tokenizer: PreTrainedTokenizerBase, style: Style, turns: TurnFormat, speaks: bool) -> Way:
    """The template's own way to write calls, with the first reader that reads one back. Raises TemplateRefused."""
    call_text = turns.write("", [_PROBE]).removesuffix(turns.call_end)
    for name in DIALECTS:
        read = _aloud(dialect(name).read_action, turns)
        if read(call_text, ()).calls == (_PROBE,):
            return Way(name, style, turns, read, dialect(name).write_calls)
    if schema := _response_template(tokenizer):
        example = without_thinking(turns.write("", [_EXAMPLE]).removesuffix(turns.call_end))
        library = _library_reader(tokenizer, schema, turns.opening, example)
        if library(call_text, [TOOL]).calls == (_PROBE,):
            return Way("library", style, turns, library, None)
    if speaks:
        raise TemplateRefused("nobody knows how to read the calls that it writes")
    shape = turns.write("", [_EXAMPLE])
    beginning = _beginning_of(shape)

    def read_no_call(text: str, __: Tools) -> Action:
        words, begun, _ = text.partition(beginning) if beginning else (text, "", "")
        return unreadable(words.strip(), "nobody knows this way", shape) if begun else Action(text.strip())

    return Way("template", style, turns, read_no_call, None)


def _beginning_of(example: str) -> str:
    """How each call begins."""
    return example.partition(_EXAMPLE.name)[0].strip()


def _aloud(read: Callable[[str], Action], turns: TurnFormat) -> Read:
    begun = "<think>" if turns.thinks_first else ""
    return lambda text, _: read(without_thinking(begun + text))


def _response_template(tokenizer: PreTrainedTokenizerBase) -> Any:
    """By which transformers reads calls: the tokenizer's own or one that TRL has for it; None where nobody knows one."""
    if own := getattr(tokenizer, "response_template", None):
        return own
    try:
        return add_response_schema(SimpleNamespace(chat_template=tokenizer.chat_template)).response_template
    except ValueError:
        return None


def _library_reader(tokenizer: PreTrainedTokenizerBase, template: Any, opening: str, example: str) -> Read:
    """``opening``: of a turn, with what stands before it; ``example``: a call. What is read has arguments of the types of
    the tool's schema."""
    first_word = _beginning_of(example).split()[0]

    def read(text: str, tools: Tools) -> Action:
        try:
            message = tokenizer.parse_response(text, schema=template, prefix=opening, tools=list(tools) or None)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            return unreadable("", str(error).partition("\n")[0], example)
        answer, calls = str(message.get("content") or "").strip(), message.get("tool_calls") or []
        if not calls and first_word in answer:
            return unreadable(answer, "it is not complete", example)
        return action_of(answer, calls, _request, example)

    return read


def _request(call: Any) -> ToolRequest:
    """Raises ValueError."""
    document = call.get("function", call) if isinstance(call, dict) else call
    if isinstance(document, dict) and document.get("arguments") is None:
        document = {**document, "arguments": {}}
    return request_of(document, "arguments")
