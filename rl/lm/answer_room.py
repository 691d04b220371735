"""How many tokens a model may answer a guard prompt with."""

from __future__ import annotations

from collections.abc import Sequence

FEWEST_TOKENS = 16
TIMES = 1.5
"""An answer may be so many times as long as the longest stored one, which is far more than twice as long as most are."""


def room_for_an_answer(most: int, stored: Sequence[int]) -> int:
    """As long as the agent's answers may be, but no longer than answers to these prompts have any reason to be. ``stored``:
    tokens of theirs."""
    return min(most, max(FEWEST_TOKENS, round(TIMES * max(stored)))) if stored else most
