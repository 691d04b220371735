"""Words, numbers and pictures that say good or bad."""

from __future__ import annotations

import re

_GOOD_WORDS = """accept accepted accurate approve approved chosen correct desirable excellent good great happy helpful
    like liked pass passed positive preferred right satisfied success thumbsup thumbup true up upvote useful yes
    👍 ✅ ❤ 😀 🙂 😊"""
_BAD_WORDS = """bad dislike disliked dissatisfied down downvote fail failed failure false inaccurate incorrect negative no
    poor reject rejected thumbsdown thumbdown undesirable unhappy unhelpful unsatisfied useless wrong
    👎 ❌ 😞 🙁 😡"""
_GOOD, _BAD = frozenset(_GOOD_WORDS.split()), frozenset(_BAD_WORDS.split())
_DECORATION = re.compile("[\U0001f3fb-\U0001f3ff\ufe0f]")
"""Colours of skin, and what makes a sign a picture."""
_SIGNS = re.compile(r"[\s_\-:.!,'\"]+")
_NUMBERS = {"1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0}


def thumb(value: object) -> float | None:
    """1.0 for good, 0.0 for bad: truth values, 1 and 0, and words in any case and with any signs; None for all else."""
    if isinstance(value, (bool, int, float)):
        return float(value) if value in (0, 1) else None
    return _NUMBERS.get(value.strip(), word_thumb(value)) if isinstance(value, str) else None


def word_thumb(value: str) -> float | None:
    """As ``thumb``, of words alone: ``Thumbs up``, ``not helpful``, 👎."""
    word = _SIGNS.sub("", _DECORATION.sub("", value)).lower()
    if word in _GOOD or word in _BAD:
        return float(word in _GOOD)
    return 0.0 if word.removeprefix("not") in _GOOD else None
