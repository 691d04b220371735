"""What an agent has to learn from and what has been learned of it, counted."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Max, Q

from rl.models import Agent, Feedback

_RATING = Q(kind=Feedback.Kind.RATING)


def get_training_stats(agent_type: str) -> dict[str, Any]:
    """What there is to learn from and what has been learned, of the agent with this name. Raises UsageError for an
    unknown one.

    Feedback is counted as it stands now; ``waiting`` are the items that no training set has read.
    """
    agent = Agent.by_name(agent_type)
    return {
        "agent": agent.name,
        "pair_type": agent.pair_type,
        **_traces(agent),
        **_feedback(agent),
        **_training_counts(agent),
    }


def _traces(agent: Agent) -> dict[str, Any]:
    traces = agent.traces.order_by()
    # Distinct rows of a subquery come in the order of the index; count(DISTINCT) would sort them all.
    return {"traces": traces.count(), "prompts": traces.values("prompt_key").distinct().count()}


def _feedback(agent: Agent) -> dict[str, Any]:
    current = Feedback.objects.filter(agent=agent, is_current=True).exclude(kind=Feedback.Kind.RETRACTION).order_by()
    counts = current.aggregate(
        ratings=Count("pk", filter=_RATING),
        up=Count("pk", filter=_RATING & Q(value__gt=0.5)),
        down=Count("pk", filter=_RATING & Q(value__lt=0.5)),
        neutral=Count("pk", filter=_RATING & Q(value=0.5)),
        comparisons=Count("pk", filter=Q(kind=Feedback.Kind.COMPARISON)),
        corrections=Count("pk", filter=Q(kind=Feedback.Kind.CORRECTION)),
        outcomes=Count("pk", filter=Q(kind=Feedback.Kind.OUTCOME)),
        waiting=Count("pk", filter=Q(training_set__isnull=True)),
        last_rated_at=Max("rated_at"),
    )
    last = counts.pop("last_rated_at")
    return {
        **counts,
        "rated_traces": current.filter(_RATING).values("trace").distinct().count(),
        "raters": current.values("rater").distinct().count(),
        "last_rated_at": last,
    }


def _training_counts(agent: Agent) -> dict[str, Any]:
    newest_set, newest_version = agent.training_sets.first(), agent.versions.first()
    last_run = agent.runs.first()
    return {
        "training_sets": agent.training_sets.count(),
        "train_rows": newest_set.train_rows if newest_set else 0,
        "heldout_rows": newest_set.heldout_rows if newest_set else 0,
        "runs": agent.runs.count(),
        "last_run": last_run.pk if last_run else None,
        "last_run_state": last_run.state if last_run else None,
        "versions": agent.versions.count(),
        "newest_version": newest_version.name if newest_version else None,
        "newest_version_stage": newest_version.stage if newest_version else None,
    }
