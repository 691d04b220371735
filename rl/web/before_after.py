"""Answers of a new version beside those of the base model, to the same prompts: read from an evaluation's report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import BooleanField, ExpressionWrapper, Q

from rl.models import Agent, Deployment, Evaluation, ModelVersion

QUESTIONS: Final = "questions"
"""In a report: [{prompt, before, after}], asked to be looked at."""
EVALUATIONS: Final = 20
"""How many are looked through for answers."""


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    prompt: str
    before: str | None
    """None: it was not kept."""
    after: str


@dataclass(frozen=True, slots=True)
class Compared:
    evaluation: Evaluation
    is_in_use: bool
    answers: list[BeforeAfter]
    were_guarded: bool
    """They are those that the guard rails looked at."""


def newest_answers(agent: Agent, version_name: str = "") -> Compared | None:
    """Those of the named version; without a name, of the version in use, else of the newest that has some."""
    champion = Deployment.champion(agent)
    rows = Evaluation.objects.filter(version__agent=agent, artifact=None).select_related("version")
    if version_name:
        rows = rows.filter(version__name__iexact=version_name)
    in_use = ExpressionWrapper(Q(version=champion), BooleanField())
    newest = rows.order_by(in_use.desc(), "-created_at")[:EVALUATIONS].iterator(chunk_size=1)  # reports are long
    return next(filter(None, (_compare(row, champion) for row in newest)), None)


def _compare(evaluation: Evaluation, champion: ModelVersion | None) -> Compared | None:
    report = evaluation.report if isinstance(evaluation.report, dict) else {}
    is_in_use = champion is not None and evaluation.version_id == champion.pk
    if asked := _read(report.get(QUESTIONS), "before", "after"):
        return Compared(evaluation, is_in_use, asked, were_guarded=False)
    guards = report.get("guards")
    samples = _read(guards.get("samples") if isinstance(guards, dict) else None, "base", "answer")
    return Compared(evaluation, is_in_use, samples, were_guarded=True) if samples else None


def _read(rows: object, before: str, after: str) -> list[BeforeAfter]:
    """Reports of earlier releases have no answers of the base model."""
    return [
        BeforeAfter(row["prompt"], row.get(before) if isinstance(row.get(before), str) else None, row[after])
        for row in _objects(rows)
        if isinstance(row.get("prompt"), str) and isinstance(row.get(after), str)
    ]


def _objects(rows: object) -> Iterable[Mapping[str, Any]]:
    return (row for row in (rows if isinstance(rows, list) else ()) if isinstance(row, dict))
