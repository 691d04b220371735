"""A judge that learns from people's labels and compares answers that it has no label of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rl.base.records import Report
from rl.evaluation.judges import Duel, Judged, Preferences
from rl.judge.features import features_by_base
from rl.judge.labels import Answers, opinions_of, text_of
from rl.judge.raters import cross_fit_by_trust

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
    known = [
        (
            answers.add(row["prompt"], text_of(row["chosen"])),
            answers.add(row.get("rejected_prompt") or row["prompt"], text_of(row["rejected"])),
        )
        for row in contrasts
    ]
    fresh = [(answers.add(duel.prompt, duel.first), answers.add(duel.prompt, duel.second)) for duel in duels]
    if not opinions:
        return None
    features = features_by_base(base_model, answers.conversations, max_length=max_length, report=report)
    report("stage", {"name": "judging the answers"})
    judge = cross_fit_by_trust(features, opinions)
    if judge is None:
        return None

    def compare(numbers: tuple[int, int], prompt_key: str) -> Preferences:
        preferences: Preferences = judge.preference(features, *numbers, prompt_key).tolist()
        return preferences

    keys = [row["prompt_key"] for row in contrasts]
    checks = [(key, compare(numbers, key)) for numbers, key in zip(known, keys, strict=True)]
    compared = [compare(numbers, duel.prompt_key) for numbers, duel in zip(fresh, duels, strict=True)]
    return Judged(checks, compared, len(opinions))
