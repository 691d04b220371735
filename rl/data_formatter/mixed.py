"""Rows for mixed preference optimisation: a pair, or a single answer that is liked or disliked, with how much it weighs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rl.base.ratings import Vote
from rl.base.records import JudgedAnswer, PreferencePair
from rl.data_formatter.jsonl import training_row
from rl.data_formatter.labelled import Label, LabelRule, row_of, usable_label
from rl.data_formatter.runs import answer_messages

LEAST_WEIGHT = 0.1
"""The weight of a row whose raters hardly lean to one side: it says little, and not nothing."""


def pair_row(pair: PreferencePair, votes: Sequence[Vote] = ()) -> dict[str, Any]:
    """Weighs the share of the raters that agree less that of the others."""
    confidence: float = (pair.metadata or {}).get("confidence", 1.0)
    return {**training_row(pair), "weight": _weight(2 * confidence - 1), "votes": list(votes)}


def single_row(answer: JudgedAnswer, rule: LabelRule, skipped: Counter[str]) -> dict[str, Any] | None:
    """Weighs what it is away from the line between good and bad, as a share of the way to the end of the scale. None: left
    out, counted."""
    label = usable_label(answer, rule, skipped)
    if label is None:
        return None
    run, weight = answer_messages(answer.response, answer.steps), _weight(label.certainty)
    chosen, rejected = (run, None) if label.good else (None, run)
    columns = {"chosen": chosen, "rejected": rejected, "weight": weight, "votes": _votes_for(answer, label)}
    return row_of(answer, label, columns)


def _votes_for(answer: JudgedAnswer, label: Label) -> list[Vote]:
    if label.source != "person":
        return []
    taking_sides = (rating for rating in answer.ratings if rating.rater and rating.value != 0.5)
    return [Vote(rating.rater, (rating.value > 0.5) == label.good) for rating in taking_sides]


def _weight(certainty: float) -> float:
    return round(min(max(certainty, LEAST_WEIGHT), 1.0), 4)
