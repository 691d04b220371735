"""Evaluations keep a few examples in words: those with a person's words are taken out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rl.forgetting.records import Left, parts
from rl.models import Evaluation, Feedback, Trace, TrainingSet

_HEAD = 60
"""Characters that are compared: reports cut long texts."""


def remove_examples(left: Left, training_sets: Iterable[TrainingSet]) -> int:
    """How many evaluations had some."""
    heads = frozenset(text[:_HEAD] for text in _texts(left) if text.strip())
    changed = 0
    if heads:
        for evaluation in Evaluation.objects.filter(training_set__in=list(training_sets)):
            report = _without(evaluation.report, heads)
            if report != evaluation.report:
                evaluation.report = report
                evaluation.save(update_fields=["report"])
                changed += 1
    return changed


def _texts(left: Left) -> Iterator[str]:
    for answers in parts(left.traces):
        for prompt, response in Trace.objects.filter(pk__in=answers).values_list("prompt", "response").iterator():
            yield response
            yield from (message["content"] for message in prompt if message["role"] == "user")
    for part in parts(left.feedback):
        yield from Feedback.objects.filter(pk__in=part).exclude(text="").values_list("text", flat=True)


def _without(value: Any, heads: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(entry, heads) for name, entry in value.items()}
    if isinstance(value, list):
        return [entry for entry in value if not _holds(entry, heads)]
    return value


def _holds(value: Any, heads: frozenset[str]) -> bool:
    if isinstance(value, dict):
        return any(_holds(entry, heads) for entry in value.values())
    if isinstance(value, list):
        return any(_holds(entry, heads) for entry in value)
    return isinstance(value, str) and value[:_HEAD] in heads
