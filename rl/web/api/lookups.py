"""Answers by their own id, or by the id that their sender has for them."""

from collections.abc import Collection, Iterable, Iterator
from uuid import UUID

from django.db.models import QuerySet

from rl.base.answer_ids import as_id
from rl.collect.traces.rows import part_id, run_id
from rl.models import Agent, RunPart, Trace
from rl.serving.gateway import pending


class AnswerConverter:
    """Converts the id of an answer in an address, in any form in which the gateway gives it."""

    regex = "[0-9a-z_-]{36,45}"

    def to_python(self, value: str) -> UUID:
        """Raises ValueError."""
        if (known := as_id(value)) is None:
            raise ValueError(value)
        return known

    def to_url(self, value: UUID) -> str:
        return str(value)


def by_id(traces: QuerySet[Trace], pk: UUID) -> Trace | None:
    """An answer that the gateway gave a moment ago too; of an answer within a run, the run."""
    trace = traces.filter(pk=pk).first()
    if trace is None:
        pending.deliver_named([str(pk)])
        trace = traces.filter(pk=run_id(pk)).first()
    return trace


def by_external_id(traces: QuerySet[Trace], external_ids: Iterable[str], agent: str | None = None) -> QuerySet[Trace]:
    """The traces of all agents, or of the named one, that have these external ids.

    Naming the agents lets SQLite use the index on (agent, external id): 0.5 instead of 130 ms among 30,000 traces."""
    return traces.filter(agent__in=_agents(agent), external_id__in=external_ids)


def runs_with(traces: QuerySet[Trace], names: Collection[str], agent: str | None = None) -> Iterator[tuple[str, Trace]]:
    """Ids of answers within runs, as the gateway gave them or OpenTelemetry told them, each with its run; of several agents
    where each has one of that name."""
    if not names:
        return
    agents = list(_agents(agent).values_list("pk", flat=True))
    hashed = {part_id(agent, name): name for name in names for agent in agents}
    ids = hashed | {given: name for name in names if (given := as_id(name))}
    parts = RunPart.objects.in_bulk(ids)
    here = traces.filter(agent__in=agents).in_bulk({part.trace_id for part in parts.values()})
    yield from ((ids[pk], here[part.trace_id]) for pk, part in parts.items() if part.trace_id in here)


def _agents(name: str | None) -> QuerySet[Agent]:
    """All of them, or the one with this name."""
    agents = Agent.objects.order_by()
    return agents.filter(name__iexact=name) if name else agents
