"""Answers of a new version beside those of the base model, to the same prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db.models import BooleanField, ExpressionWrapper, Q

from rl.models import Agent, Deployment, Evaluation, ModelVersion

EVALUATIONS: Final = 20
"""How many are looked through for answers."""


@dataclass(frozen=True, slots=True)
class Compared:
    evaluation: Evaluation
    is_in_use: bool
    answers: list[dict[str, str]]
    """As ``Evaluation.before_and_after``; at least one."""


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
    answers = evaluation.before_and_after
    is_in_use = champion is not None and evaluation.version_id == champion.pk
    return Compared(evaluation, is_in_use, answers) if answers else None
