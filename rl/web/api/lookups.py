"""Traces by external id."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet

from rl.models import Agent, Trace


def by_external_id(traces: QuerySet[Trace], external_ids: Iterable[str], agent: str | None = None) -> QuerySet[Trace]:
    """The traces of all agents, or of the named one, that have these external ids.

    Naming the agents lets SQLite use the index on (agent, external id): 0.5 instead of 130 ms among 30,000 traces.
    """
    agents = Agent.objects.order_by()
    if agent:
        agents = agents.filter(name__iexact=agent)
    return traces.filter(agent__in=agents, external_id__in=external_ids)
