"""A judge that learns from people's labels and compares answers that it has no label of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rl.base.records import Message, Report
from rl.evaluation.judges.duels import Duel, Judged, Preferences
from rl.judge.features import features_by_base
from rl.judge.labels import Answers, opinions_of, text_of
from rl.judge.raters import Judge, cross_fit_by_trust

Row = Mapping[str, Any]


def judge(
    base_model: str,
    labelled: Iterable[Row],
    contrasts: Sequence[Row],
    duels: Sequence[Duel],
    *,
    max_length: int,
    report: Report,
) -> Judged | None:
    """Every comparison by heads that have seen no label of its prompt; both answers of a contrast are to prompts of one
    fold. None where the labels are too few to learn from. Loads the base model, and raises what that raises."""
    answers = Answers()
    opinions = opinions_of(labelled, answers)
    known = [_add(answers, row["prompt"], row.get("rejected_prompt"), *_sides(row)) for row in contrasts]
    fresh = [_add(answers, duel.prompt, None, duel.first, duel.second) for duel in duels]
    if not opinions:
        return None
    features = features_by_base(base_model, answers.conversations, max_length=max_length, report=report)
    report("stage", {"name": "judging the answers"})
    judge = cross_fit_by_trust(features, opinions)
    if judge is None:
        return None
    return Judged(
        [
            (row["prompt_key"], _compare(judge, features, numbers, row["prompt_key"]))
            for numbers, row in zip(known, contrasts, strict=True)
        ],
        [_compare(judge, features, numbers, duel.prompt_key) for numbers, duel in zip(fresh, duels, strict=True)],
        len(opinions),
    )


def _sides(row: Row) -> tuple[str, str]:
    return text_of(row["chosen"]), text_of(row["rejected"])


def _add(
    answers: Answers, prompt: Sequence[Message], other_prompt: Sequence[Message] | None, first: str, second: str
) -> tuple[int, int]:
    return answers.add(prompt, first), answers.add(other_prompt or prompt, second)


def _compare(judge: Judge, features: np.ndarray, numbers: tuple[int, int], prompt_key: str) -> Preferences:
    values: Preferences = judge.preference(features, *numbers, prompt_key).tolist()
    return values
