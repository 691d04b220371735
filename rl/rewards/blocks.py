"""The fenced code blocks of an answer in Markdown (CommonMark)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

LONGEST = 200_000
"""Characters of an answer that is looked at; a longer one is not judged, because a cut block looks broken."""
LANGUAGES = {
    **dict.fromkeys(("py", "python3", "py3"), "python"),
    **dict.fromkeys(("sh", "bash", "zsh"), "shell"),
    "yml": "yaml",
    **dict.fromkeys(("postgres", "postgresql", "mysql", "sqlite", "sqlite3", "tsql"), "sql"),
}

_NEW_LINE = re.compile(r"\r\n?|\n")
"""Ends of lines, as markdown-it counts them."""


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    """The language in small letters, aliases resolved; empty where the fence names none."""
    code: str
    lines: tuple[int, int]
    """The first line of the block and the first after it, fences included, counted from 0."""
    closed: bool


def fenced_blocks(text: str) -> list[Block] | None:
    """The text's fenced blocks in their order; None for a text that is too long to look at."""
    if len(text) > LONGEST:
        return None
    if "```" not in text and "~~~" not in text:
        return []
    lines, blocks = _NEW_LINE.split(text), []
    for token in _parser().parse(text):
        if token.type != "fence":
            continue
        start, end = token.map or (0, 0)
        named = re.match(r"[\w+#.-]+", token.info.strip().lstrip("{."))
        name = named[0].lower() if named else ""
        # a fence that nothing closes ends with the text
        own = lines[start:end]
        last = own[-1].strip(" \t>") if len(own) > 1 else ""
        is_closed = len(last) >= len(token.markup) and set(last) == {token.markup[0]}
        blocks.append(Block(LANGUAGES.get(name, name), token.content, (start, end), is_closed))
    return blocks


def program_of(answer: str, blocks: Sequence[Block], languages: Sequence[str] = ("python",)) -> str:
    """The last of its blocks in these languages, or the whole answer where it has none."""
    code = [block.code for block in blocks if block.language in languages]
    return code[-1] if code else answer


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt  # answers without a code block do not pay for it

    return MarkdownIt("commonmark", {"maxNesting": 20}).disable("inline")


def outside(text: str, blocks: Sequence[Block]) -> str:
    """What is in none of the blocks."""
    lines = _NEW_LINE.split(text)
    inside = {number for block in blocks for number in range(*block.lines)}
    return "\n".join(line for number, line in enumerate(lines) if number not in inside)
