"""A model's own chat template (Jinja) in the language of Ollama's templates (Go).

The two cannot be translated in general. A template counts as one of the families below only if it writes the same text
as the family, character for character, for chats with and without a system message and with earlier turns; any other
is refused, because a model that is prompted differently than it was trained answers worse and nobody is told why.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gguf import GGUFReader
from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rl.base.errors import ExportFailed
from rl.base.records import Message
from rl.export.ollama.families import FAMILIES, Family

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

Render = Callable[[list[Message]], str]


def family_of_file(gguf_file: Path) -> Family:
    """The family of the file's chat template. Raises ExportFailed when it has none, or none that Ollama can have."""
    try:
        reader = GGUFReader(gguf_file)
    except (OSError, ValueError, IndexError) as error:  # IndexError: the file ends too early
        raise ExportFailed(f"{gguf_file} cannot be read as GGUF: {error}") from error
    jinja = reader.get_field("tokenizer.chat_template")
    if jinja is None:
        raise ExportFailed(
            f"{gguf_file.name} has no chat template, so Ollama could not write a chat as the model expects it; "
            "use a base model whose tokenizer has one"
        )
    return find_family(jinja.contents(), bos=_token(reader, "bos"), eos=_token(reader, "eos"))


def find_family(jinja: str, *, bos: str, eos: str) -> Family:
    """Raises ExportFailed for a template that is broken, or that no family writes exactly.

    A begin-of-text token before the chat is left out: Ollama adds it itself, as the GGUF file says. Where a template
    writes the date, the date that it falls back on is kept.
    """
    render = _renderer(jinja, bos, eos)
    plain = [_render_chat(render, chat) for chat in _PLAIN]
    with_system = _with_system(render)
    for family in FAMILIES:
        candidates = [family.without_system()]
        if with_system is not None:
            candidates.insert(0, family.fit_to(plain[0], with_system[0], _SYSTEM))
        for candidate in candidates:
            if _writes(candidate, _PLAIN, plain) and _writes(candidate, _WITH_SYSTEM, with_system):
                return candidate
    raise ExportFailed(
        f"this model's chat template has no known equivalent in Ollama; known: {', '.join(sorted(_names()))}. "
        "Serve the GGUF file with llama.cpp, which reads the template itself"
    )


def _names() -> set[str]:
    return {family.name for family in FAMILIES}


def _writes(family: Family, chats: list[list[Message]], expected: list[str] | None) -> bool:
    return expected is None or [family.render(chat) for chat in chats] == expected


def _with_system(render: Render) -> list[str] | None:
    """None when the template takes no system message: those that do not, raise in one way or another."""
    try:
        return [render(chat) for chat in _WITH_SYSTEM]
    except Exception:
        return None


def _render_chat(render: Render, chat: list[Message]) -> str:
    try:
        return render(chat)
    except Exception as error:  # a template is a program of its own
        raise ExportFailed(f"this model's chat template fails: {type(error).__name__}: {error}") from error


def _renderer(jinja: str, bos: str, eos: str) -> Render:
    """As transformers renders it: sandboxed, because it came with a model from somewhere."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationTag]
    )
    environment.globals["raise_exception"] = _raise_exception
    try:
        template = environment.from_string(jinja)
    except TemplateError as error:
        raise ExportFailed(f"this model's chat template is broken: {error}") from error

    def render(chat: list[Message]) -> str:
        text = template.render(
            messages=chat, tools=None, documents=None, add_generation_prompt=True, bos_token=bos, eos_token=eos
        )
        return text.removeprefix(bos)

    return render


class _GenerationTag(Extension):
    """``{% generation %}`` marks what was generated, for training; what it encloses is written as it stands."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _token(reader: Any, name: str) -> str:
    """The text of a special token; empty when the model has none."""
    number = reader.get_field(f"tokenizer.ggml.{name}_token_id")
    tokens = reader.get_field("tokenizer.ggml.tokens")
    return tokens.contents(int(number.contents())) if number and tokens else ""
