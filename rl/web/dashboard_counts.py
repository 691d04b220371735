"""The figures of the dashboard. Each function costs one query, however many rows there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import CharField, Count, F, OuterRef, Q, Subquery
from django.db.models.functions import Cast, Coalesce, Substr
from django.utils import timezone

from rl.models import Agent, Deployment, Evaluation, Experiment, Feedback, ModelVersion, TrainingRun
from rl.online_learner import how_to_enable
from rl.serving import probation

DAYS = 30
AGENTS = 50
RECENT = 8

# Written exactly like the conditions of the partial indexes, or the planner does not use them.
LEARNABLE = Q(is_current=True) & ~Q(kind=Feedback.Kind.RETRACTION)
WAITING = Q(is_current=True, training_set__isnull=True) & ~Q(kind=Feedback.Kind.RETRACTION)


@dataclass(frozen=True, slots=True)
class AgentFigures:
    """What one agent could be trained on now, and what it uses."""

    agent: Agent
    current: int
    """Ratings, picks, corrections and outcomes that stand."""
    waiting: int
    """Those of the current feedback that no training set has seen."""
    champion: ModelVersion | None
    evaluation: Evaluation | None
    """The newest of the champion."""
    probation: str = ""
    """How the version does that was promoted, or taken back, in the last days."""

    @property
    def missing(self) -> int:
        return max(0, self.agent.min_samples_to_retrain - self.waiting)

    @property
    def how_to_enable(self) -> str:
        """What is to be done before it retrains by itself; empty when it does."""
        return how_to_enable(self.agent)


@dataclass(frozen=True, slots=True)
class VersionFigures:
    version: ModelVersion
    evaluation: Evaluation | None


def feedback_per_day(today: date | None = None) -> list[tuple[date, int]]:
    """The last 30 days in UTC, oldest first, days without feedback included; retractions are not counted."""
    last = today or timezone.now().astimezone(UTC).date()
    days = [last - timedelta(days=back) for back in reversed(range(DAYS))]
    since = datetime.combine(days[0], time(), UTC)
    rows = (
        Feedback.objects.filter(created_at__gte=since)
        .exclude(kind=Feedback.Kind.RETRACTION)
        # The database keeps UTC; cutting the text is 20 times faster on SQLite than Django's date function in Python.
        .annotate(day=Substr(Cast("created_at", CharField()), 1, 10))
        .order_by()
        .values_list("day")
        .annotate(Count("id"))
    )
    counts = dict(rows)
    return [(day, counts.get(day.isoformat(), 0)) for day in days]


def counts() -> list[tuple[Agent, int, int]]:
    """The first 50 agents by name, with the numbers of current and of waiting events."""
    agents = Agent.objects.defer("system_prompt", "description")
    # Agent by agent: grouped over all agents the planner passes the partial indexes by.
    rows = agents.annotate(current=_number_of(LEARNABLE), waiting=_number_of(WAITING))[:AGENTS]
    return [(agent, agent.current, agent.waiting) for agent in rows]


def _number_of(condition: Q) -> Coalesce:
    events = Feedback.objects.filter(condition, agent=OuterRef("pk")).order_by().values("agent")
    return Coalesce(Subquery(events.annotate(number=Count("pk")).values("number")), 0)


def champions() -> dict[int, ModelVersion]:
    """Agent id to the version in use."""
    rows = Deployment.objects.filter(alias=Deployment.Alias.CHAMPION).select_related("version")
    return {row.agent_id: row.version for row in rows if row.version is not None}


def newest_evaluations(versions: Iterable[ModelVersion]) -> dict[int, Evaluation]:
    """Version id to the newest evaluation of its weights, without the report but with what was measured, ``measure``."""
    rows = Evaluation.objects.filter(version__in={version.pk for version in versions}, artifact=None).defer("report")
    rows = rows.annotate(measure=F("report__measure"))
    return {row.version_id: row for row in rows.order_by("created_at")}


def served_deployments() -> list[Deployment]:
    """What applications can reach, by agent; the version in use first."""
    rows = Deployment.objects.exclude(target=Deployment.Target.NONE).select_related("agent", "version")
    return list(rows.order_by("agent__name", "-alias", "-created_at")[:AGENTS])


def running_experiments() -> list[Experiment]:
    return list(Experiment.objects.filter(state=Experiment.State.RUNNING).select_related("agent")[:AGENTS])


def recent_runs() -> list[TrainingRun]:
    return list(TrainingRun.objects.select_related("agent", "version").order_by("-pk")[:RECENT])


def recent_versions() -> list[ModelVersion]:
    return list(ModelVersion.objects.select_related("agent", "run").order_by("-pk")[:RECENT])


def agents_and_versions() -> tuple[list[AgentFigures], list[VersionFigures]]:
    """Five queries, and some for each agent whose version in use changed in the last days."""
    in_use, versions, sentences = champions(), recent_versions(), probation.describe_all()
    evaluations = newest_evaluations([*versions, *in_use.values()])
    agents = []
    for agent, current, waiting in counts():
        champion = in_use.get(agent.pk)
        evaluation = evaluations.get(champion.pk) if champion else None
        sentence = sentences.get(agent.name, "")
        agents.append(AgentFigures(agent, current, waiting, champion, evaluation, sentence))
    return agents, [VersionFigures(version, evaluations.get(version.pk)) for version in versions]
