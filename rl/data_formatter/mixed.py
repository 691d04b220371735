"""Rows for mixed preference optimisation: a pair, or a single answer that is liked or disliked, with how much it weighs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rl.base.records import JudgedAnswer, PreferencePair
from rl.data_formatter.jsonl import training_row
from rl.data_formatter.labelled import LabelRule, completion, row_of, usable_label

LEAST_WEIGHT = 0.1
"""The weight of a row whose raters hardly lean to one side: it says little, and not nothing."""


def pair_row(pair: PreferencePair) -> dict[str, Any]:
    """Weighs the share of the raters that agree less that of the others."""
    confidence: float = (pair.metadata or {}).get("confidence", 1.0)
    return {**training_row(pair), "weight": _weight(2 * confidence - 1)}


def single_row(answer: JudgedAnswer, rule: LabelRule, skipped: Counter[str]) -> dict[str, Any] | None:
    """Weighs what it is away from the line between good and bad, as a share of the way to the end of the scale. None: left
    out, counted."""
    label = usable_label(answer, rule, skipped)
    if label is None:
        return None
    text, weight = completion(answer.response), _weight(label.certainty)
    chosen, rejected = (text, None) if label.good else (None, text)
    return row_of(answer, label, {"chosen": chosen, "rejected": rejected, "weight": weight})


def _weight(certainty: float) -> float:
    return round(min(max(certainty, LEAST_WEIGHT), 1.0), 4)
