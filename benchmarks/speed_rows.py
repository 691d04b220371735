"""Preference pairs of token ids for benchmarks of speed: what stands in them does not matter, how long they are and what
they share does."""

import random
from typing import Any, Final

PROMPT: Final = 252
"""Tokens."""
CATALOGUE: Final = 240
"""Tokens of the instructions that all prompts of a set begin with, where they share some."""
ANSWERS: Final = (60, 90)
_SPECIAL: Final = 100
"""Token ids below it may end a text."""
Row = dict[str, Any]


def make_pairs(count: int, words: int, *, share: bool, seed: int = 0) -> list[Row]:
    """``words``: of the vocabulary. ``share``: whether all prompts begin with the same catalogue."""
    draw = random.Random(seed)

    def text(tokens: int) -> list[int]:
        return [draw.randrange(_SPECIAL, words) for _ in range(tokens)]

    catalogue = text(CATALOGUE) if share else []
    return [
        {
            "prompt_ids": catalogue + text(PROMPT - len(catalogue)),
            "chosen_ids": text(draw.randint(*ANSWERS)),
            "rejected_ids": text(draw.randint(*ANSWERS)),
        }
        for _ in range(count)
    ]


def cross_pairs(pairs: list[Row]) -> list[Row]:
    """Two answers that are liked and two that are not to one prompt are four pairs, as in a frozen set. Of each two of
    ``pairs`` the prompt of the first."""
    return [
        {"prompt_ids": first["prompt_ids"], "chosen_ids": better["chosen_ids"], "rejected_ids": worse["rejected_ids"]}
        for first, second in zip(pairs[::2], pairs[1::2], strict=True)
        for better in (first, second)
        for worse in (first, second)
    ]


def label_pairs(pairs: list[Row], together: int) -> list[Row]:
    """Both answers of each by themselves, with KTO's label and, for its point of reference, the answer before it of the
    ``together`` rows of its pass."""
    rows = [
        {"prompt_ids": pair["prompt_ids"], "completion_ids": pair[f"{name}_ids"], "label": name == "chosen"}
        for pair in pairs
        for name in ("chosen", "rejected")
    ]
    for first in range(0, len(rows), together):
        of_pass = rows[first : first + together]
        for row, before in zip(of_pass, [of_pass[-1], *of_pass[:-1]], strict=True):
            row["KL_completion_ids"] = before["completion_ids"]
    return rows


def weigh_pairs(pairs: list[Row]) -> list[Row]:
    """As the mixed method reads them, which of pairs needs no other answer."""
    return [{**pair, "other_ids": None, "weight": 1.0} for pair in pairs]


def join_pairs(pairs: list[Row]) -> list[Row]:
    """Each answer behind its prompt, as a reward model reads it; none has a score."""
    return [
        {
            **{f"{name}_ids": pair["prompt_ids"] + pair[f"{name}_ids"] for name in ("chosen", "rejected")},
            "completion_ids": None,
            "score": None,
        }
        for pair in pairs
    ]
