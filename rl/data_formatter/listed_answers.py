"""The answers that a prompt lists itself, found by one of them that was accepted: "cards, transfers, cash or identity?"."""

from __future__ import annotations

import re
from typing import Final

from rl.data_formatter.answer_kinds import normalise

FEWEST: Final = 3
"""Answers of a list; two words with a comma between are in many sentences."""
MOST: Final = 100
LONGEST: Final = 40
"""Characters of an answer in a list."""
MOST_WORDS: Final = 4
LONGEST_PROMPT: Final = 40_000
"""Characters of a prompt that are read, half of them from each end: the gateway looks at every question."""
_SEPARATORS: Final = re.compile(
    r"\s*(?:,|;|\||/|\n)\s*(?:(?:or|and|oder|und|ou|et|o|y)\s+)?|\s+(?:or|and|oder|und|ou|et)\s+"
)
_ENDS: Final = re.compile(r"[:?!.](?=\s|$)|[()\[\]{}]")
_MARKS: Final = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")


def listed_answers(prompt: str, accepted: str) -> tuple[str, ...]:
    """The list that the accepted answer stands in, as the prompt spells it; empty where there is none.

    A list ends at a colon, a bracket, and the end of a sentence; its parts are between commas, slashes, lines or the word
    before the last one. Where a sentence leads to it ("Is this good, bad or neutral?"), the first part is as long as the
    others.
    """
    wanted, half = normalise(accepted), LONGEST_PROMPT // 2
    read = prompt if len(prompt) <= LONGEST_PROMPT else f"{prompt[:half]}\n{prompt[-half:]}"
    for stretch, is_sentence in _stretches(read):
        parts = [_MARKS.sub("", part).strip(" \t\"'`*") for part in _SEPARATORS.split(stretch)]
        if is_sentence and len(parts) >= FEWEST:
            most = max(len(part.split()) for part in parts[1:])
            parts[0] = " ".join(parts[0].split()[-most:])
        answers = tuple(dict.fromkeys(part for part in parts if part))
        is_list = FEWEST <= len(answers) <= MOST and all(map(_is_short, answers))
        if is_list and wanted in map(normalise, answers):
            return answers
    return ()


def _stretches(prompt: str) -> list[tuple[str, bool]]:
    """What may be a list: the parts of each line, and lines that follow each other with a mark before each; and whether it
    begins as a sentence does."""
    lines = [
        " ".join(line.split()) for line in prompt.splitlines()
    ]  # the separators go over a run of blanks again and again
    marked = [line if _MARKS.match(line) else "" for line in lines]
    blocks = [block.strip("\n") for block in re.split(r"\n{2,}", "\n".join(marked)) if block.strip()]
    parts = ((part, at == 0 or mark in ".?!") for line in lines for at, (mark, part) in enumerate(_parts(line)))
    return [*parts, *((block, False) for block in blocks)]


def _parts(line: str) -> list[tuple[str, str]]:
    """Between the marks that end a list, each with the mark before it."""
    ends = [("", 0), *((match[0], match.end()) for match in _ENDS.finditer(line))]
    starts = [*(match.start() for match in _ENDS.finditer(line)), len(line)]
    return [(mark, line[begin:end]) for (mark, begin), end in zip(ends, starts, strict=True)]


def _is_short(answer: str) -> bool:
    return len(answer) <= LONGEST and len(answer.split()) <= MOST_WORDS
