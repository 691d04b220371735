"""``gen_ai.evaluation.result``: what a program thinks of an answer, as a span event or as a span of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rl.base.slugs import one_line
from rl.collect.limits import MAX_METRIC_LENGTH, MAX_NOTES_LENGTH, MAX_RATER_LENGTH, MAX_TAG_LENGTH
from rl.collect.otlp.spans import Span, moment
from rl.collect.otlp.values import text
from rl.collect.traces.imported import ImportedFeedback

NAME = "gen_ai.evaluation.result"
VERDICTS: Mapping[str, float] = {
    "pass": 1.0,
    "passed": 1.0,
    "correct": 1.0,
    "relevant": 1.0,
    "good": 1.0,
    "fail": 0.0,
    "failed": 0.0,
    "incorrect": 0.0,
    "not_relevant": 0.0,
    "irrelevant": 0.0,
    "bad": 0.0,
}
"""Labels that say which way a score points."""
LESS_IS_BETTER = ("toxic", "hallucinat", "bias", "harm", "violen", "injection", "jailbreak")
"""Parts of the names of evaluators whose high scores are not praise."""


def evaluations(span: Span) -> Iterator[tuple[str, ImportedFeedback]]:
    """Each with the id of the response that it names, or none. Without a score and a known label there is nothing."""
    if span.name == NAME or "gen_ai.evaluation.name" in span.attributes:
        yield from _read(span.attributes, span.end or span.start)
    for event in span.events:
        if event.name == NAME:
            yield from _read(event.attributes, event.time)


def _read(attributes: Mapping[str, Any], time: int) -> Iterator[tuple[str, ImportedFeedback]]:
    name = one_line(text(attributes, "gen_ai.evaluation.name")).strip() or "evaluation"
    label, score = text(attributes, "gen_ai.evaluation.score.label"), _score(attributes)
    common: dict[str, Any] = {
        "rater": f"system:{name}"[:MAX_RATER_LENGTH],
        "notes": text(attributes, "gen_ai.evaluation.explanation")[:MAX_NOTES_LENGTH],
        "tags": (label[:MAX_TAG_LENGTH],) if label else (),
        "rated_at": moment(time),
    }
    verdict = VERDICTS.get(label.lower().replace(" ", "_"))
    rating = verdict if verdict is not None else _as_rating(name, score)
    response_id = text(attributes, "gen_ai.response.id")
    if rating is not None:
        yield response_id, ImportedFeedback(kind="rating", scale="score", value=rating, **common)
    elif score is not None:
        yield response_id, ImportedFeedback(kind="outcome", metric=name[:MAX_METRIC_LENGTH], value=score, **common)


def _score(attributes: Mapping[str, Any]) -> float | None:
    value = attributes.get("gen_ai.evaluation.score.value")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _as_rating(name: str, score: float | None) -> float | None:
    """A score from 0 to 1 rates the answer, unless its evaluator looks for something bad."""
    praises = not any(part in name.lower() for part in LESS_IS_BETTER)
    return score if praises and score is not None and 0 <= score <= 1 else None
