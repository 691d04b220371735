"""Where an answer may end that was cut off."""

from __future__ import annotations

import re
from typing import Final

_ENOUGH_WORDS: Final = 22
"""A first sentence of so many words stands alone."""


def cut_whole(text: str) -> str:
    """Up to the end of the last whole sentence; all of a text without one."""
    ends = [match.end() for match in re.finditer(r"[.!?](?=\s|$)", text.strip())]
    return text.strip()[: ends[-1]] if ends else text.strip()


def cut_short(text: str) -> str:
    """The first whole sentence, or the first two where the first is short; empty without one."""
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(text.split()))
    whole = [sentence for sentence in sentences if sentence.endswith((".", "!", "?"))]
    count = 1 if whole and len(whole[0].split()) >= _ENOUGH_WORDS else 2
    return " ".join(whole[:count])
