"""A model's own chat template (Jinja) in the language of Ollama's templates (Go).

The two cannot be translated in general. A template counts as one of the families below only if it writes the same text
as the family, character for character, for chats with and without a system message and with earlier turns; any other
is refused, because a model that is prompted differently than it was trained answers worse and nobody is told why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rl.base.errors import BadFile, ExportFailed
from rl.base.records import Message
from rl.base.template_settings import template_settings
from rl.export.gguf_header import open_gguf
from rl.export.ollama.families import FAMILIES, Family
from rl.lm.chat.template_trial import TemplateExcess, write_chats

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
