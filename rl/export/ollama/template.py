"""A model's own chat template (Jinja) in the language of Ollama's templates (Go).

The two cannot be translated in general. A template counts as one of the families below only if it writes the same text
as the family, character for character, for chats with and without a system message and with earlier turns; any other
is refused, because a model that is prompted differently than it was trained answers worse and nobody is told why.

Ollama gives a template ``.Messages``, in which neighbours of the same role are one already, and ``.System``, the system
messages together. It shows tools only to templates that ask for them; these do not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from rl.base.errors import BadFile, ExportFailed
from rl.base.records import Message
from rl.base.template_settings import template_settings
from rl.export.gguf_header import open_gguf
from rl.lm.chat.template_trial import TemplateExcess, write_chats

Around = tuple[str, str]
"""The text before and after a content."""
Placement = Literal["own", "first", "last", "none"]
_GAP = "\n\n"
"""Between the system message and the user message that it joins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A format in which every message stands between two fixed texts."""

    name: str
    user: Around
    assistant: Around
    system: Around = ("", "")
    """Used where ``placement`` is own."""
    placement: Placement = "own"
    """Where the system message goes: in a block of its own, at the head of the first or the last user message, nowhere."""
    generation: str = ""
    """What makes the model answer."""
    default_system: str = ""
    """Written into a block of its own when a chat has no system message."""

    @property
    def takes_system(self) -> bool:
        return self.placement != "none"

    @property
    def stop(self) -> list[str]:
        """What ends an answer."""
        end = self.assistant[1].strip()
        return [end] if end else []

    def without_system(self) -> Family:
        return replace(self, placement="none")

    def open_as(self, text: str, chat: Sequence[Message]) -> Family:
        """With what one template writes behind the opening of a turn, as an empty thought. ``text``: that of ``chat``."""
        own = self.render(chat)
        return replace(self, generation=self.generation + text[len(own) :]) if text.startswith(own) else self

    def fit_to(self, plain: str, with_system: str, content: str) -> Family:
        """With the texts that one template adds to system messages. Both texts are that of a one-question chat. Some put a
        date before the message (``content``), some bring a message for chats that have none."""
        before, after = self.system
        if self.placement != "own" or not with_system.startswith(before) or content not in with_system:
            return self
        opening = with_system[: with_system.index(content)]
        default = ""
        if plain.startswith(before) and after in plain:
            default = plain[len(before) : plain.index(after)]
        return replace(self, system=(opening, after), default_system=f"{before}{default}{after}" if default else "")

    def render(self, chat: Sequence[Message]) -> str:
        """The text that the Ollama template makes of the chat; for comparison with a model's own template."""
        system = "".join(message["content"] for message in chat if message["role"] == "system")
        turns = [message for message in chat if message["role"] != "system"]
        joined = {"first": 0, "last": len(turns) - 1}.get(self.placement) if system else None
        text = self.default_system if not system else ""
        if system and self.placement == "own":
            text = _between(self.system, system)
        for number, message in enumerate(turns):
            content = f"{system}{_GAP}{message['content']}" if number == joined else message["content"]
            text += _between(self.user if message["role"] == "user" else self.assistant, content)
        return text + self.generation

    def ollama_template(self) -> str:
        loop, joined = _LOOPS[self.placement]
        parts = [loop, _do('if eq .Role "user"'), _block(self.user, joined)]
        if self.placement == "own":
            parts += [_do('else if eq .Role "system"'), _block(self.system)]
        parts += [_do('else if eq .Role "assistant"'), _block(self.assistant), _do("end"), _do("end")]
        if self.default_system:
            parts = [_do("if not .System"), _literal(self.default_system), _do("end"), *parts]
        return "".join(parts) + _literal(self.generation)


def _do(action: str) -> str:
    return "{{ " + action + " }}"


_EACH = _do("range .Messages")
_IS_LAST = "eq (len (slice $.Messages $i)) 1"
# How the loop over the messages opens, and what comes before a user message's content.
_LOOPS: Final[dict[str, tuple[str, str]]] = {
    "own": (_EACH, ""),
    "none": (_EACH, ""),
    "first": (
        _do("$system := .System") + _EACH,
        _do("if $system") + _do("$system") + _GAP + _do('$system = ""') + _do("end"),
    ),
    "last": (
        _do("range $i, $message := .Messages"),
        _do(f"if and $.System ({_IS_LAST})") + _do("$.System") + _GAP + _do("end"),
    ),
}


def _between(around: Around, content: str) -> str:
    return f"{around[0]}{content}{around[1]}"


def _block(around: Around, joined: str = "") -> str:
    return _literal(around[0]) + joined + _do(".Content") + _literal(around[1])


def _literal(text: str) -> str:
    """Text as a template writes it. A brace might open an action, so such text is quoted; JSON's quoting is Go's too."""
    return _do(json.dumps(text, ensure_ascii=False)) if "{" in text else text


def _family_with_headers(name: str, header: str, end: str) -> Family:
    """A family with the same block for every role; ``header`` has a place for the role."""
    before = {role: header.format(role=role) for role in ("system", "user", "assistant")}
    return Family(
        name=name,
        user=(before["user"], end),
        assistant=(before["assistant"], end),
        system=(before["system"], end),
        generation=before["assistant"],
    )


_MISTRAL: Final[tuple[tuple[Around, Around, Placement, Around], ...]] = (
    # user, assistant, where a system message goes; the spaces differ from one tokenizer version to the next
    (("[INST] ", " [/INST]"), ("", "</s>"), "first", ("", "")),
    (("[INST] ", " [/INST]"), ("", "</s> "), "first", ("", "")),
    (("[INST] ", " [/INST]"), (" ", "</s>"), "first", ("", "")),
    ((" [INST] ", " [/INST]"), (" ", "</s>"), "first", ("", "")),
    (("[INST] ", "[/INST]"), (" ", "</s>"), "last", ("", "")),
    (("[INST]", "[/INST]"), ("", "</s>"), "last", ("", "")),
    (("[INST] ", "[/INST]"), (" ", "</s>"), "own", ("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]")),
    (("[INST]", "[/INST]"), ("", "</s>"), "own", ("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]")),
)

FAMILIES: Final[tuple[Family, ...]] = (
    _family_with_headers("ChatML", "<|im_start|>{role}\n", "<|im_end|>\n"),
    _family_with_headers("Llama 3", "<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>"),
    *(
        Family(name="Mistral instruct", user=user, assistant=assistant, placement=placement, system=system)
        for user, assistant, placement, system in _MISTRAL
    ),
)

_SYSTEM = "Speak as the probe's system message."
_TURNS = [
    Message(role="user", content="What does the first probe ask?"),
    Message(role="assistant", content="That is the first answer."),
    Message(role="user", content="And what does the second ask?"),
    Message(role="assistant", content="This answers the second one."),
    Message(role="user", content="Is the third the last?"),
]
_PLAIN = [_TURNS[:length] for length in (1, 3, 5)]
_WITH_SYSTEM = [[Message(role="system", content=_SYSTEM), *chat] for chat in _PLAIN]


def family_of_file(gguf_file: Path) -> Family:
    """The family of the file's chat template. Raises ExportFailed when it has none, or none that Ollama can have."""
    try:
        reader = open_gguf(gguf_file)
    except BadFile as error:
        raise ExportFailed(str(error)) from error
    jinja = reader.get_field("tokenizer.chat_template")
    template = jinja.contents() if jinja else None
    if not isinstance(template, str):
        raise ExportFailed(
            f"{gguf_file.name} has no chat template, so Ollama could not write a chat as the model expects it; "
            "use a base model whose tokenizer has one"
        )
    return find_family(template, bos=_token(reader, "bos"), eos=_token(reader, "eos"))


def find_family(jinja: str, *, bos: str, eos: str) -> Family:
    """Raises ExportFailed for a template that is broken, or that no family writes exactly. A begin-of-text token before the
    chat is left out: Ollama adds it itself, as the GGUF file says. Where a template writes the date, the date that it falls
    back on is kept."""
    plain, with_system = _write(jinja, bos, eos)
    for family in (known.open_as(plain[0], _PLAIN[0]) for known in FAMILIES):
        candidates = [family.without_system()]
        if with_system is not None:
            candidates.insert(0, family.fit_to(plain[0], with_system[0], _SYSTEM))
        for candidate in candidates:
            if _writes(candidate, _PLAIN, plain) and _writes(candidate, _WITH_SYSTEM, with_system):
                return candidate
    names = sorted({family.name for family in FAMILIES})
    raise ExportFailed(
        f"this model's chat template has no known equivalent in Ollama; known: {', '.join(names)}. "
        "Serve the GGUF file with llama.cpp, which reads the template itself"
    )


def _writes(family: Family, chats: list[list[Message]], expected: list[str] | None) -> bool:
    return expected is None or [family.render(chat) for chat in chats] == expected


def _write(jinja: str, bos: str, eos: str) -> tuple[list[str], list[str] | None]:
    """The plain chats, and those with a system message: None when the template takes none, and raises in one way or
    another. In a process of its own, because it came with a model from somewhere."""
    settings = {"tools": None, "add_generation_prompt": True, **template_settings(False)}
    chats = [{"messages": chat, **settings} for chat in (*_PLAIN, *_WITH_SYSTEM)]
    try:
        written = write_chats(jinja, chats, {"bos_token": bos, "eos_token": eos}, clock=False)
    except TemplateExcess as excess:
        raise ExportFailed(f"this model's chat template cannot be used: {excess}") from excess
    if refused := [chat["refused"] for chat in written[: len(_PLAIN)] if "refused" in chat]:
        raise ExportFailed(f"this model's chat template fails: {refused[0]}")
    texts = [chat["text"].removeprefix(bos) for chat in written if "text" in chat]
    return texts[: len(_PLAIN)], texts[len(_PLAIN) :] if len(texts) == len(chats) else None


def _token(reader: Any, name: str) -> str:
    """The text of a special token; empty when the model has none."""
    number = reader.get_field(f"tokenizer.ggml.{name}_token_id")
    tokens = reader.get_field("tokenizer.ggml.tokens")
    try:
        return str(tokens.contents(int(number.contents()))) if number and tokens else ""
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise ExportFailed(f"the file has no token of the number that it gives for {name}: {error}") from error
