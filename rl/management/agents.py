"""Which agent a command is about: the one that is named, or the only one that fits."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Exists, Model, OuterRef

from rl.base.errors import UsageError
from rl.base.records import Report
from rl.models import Agent, Feedback, ModelVersion, Trace

MOST_NAMED = 10
"""Agents that a refusal lists."""


@dataclass(frozen=True, slots=True)
class Need:
    """What an agent must have, so that a command can be about it."""

    things: str
    model: type[Model] | None = None
    """Whose rows name their agent; None: every agent will do."""


RATINGS, ANSWERS, VERSIONS = Need("ratings", Feedback), Need("answers", Trace), Need("versions", ModelVersion)
NOTHING = Need("")


def choose_agent(name: str | None, need: Need, report: Report) -> Agent:
    """The named one whatever it has. Without a name the only one with what is needed, which the log says. Raises UsageError
    for a name that is not known, and where none or several fit."""
    if name:
        return Agent.by_name(name)
    agents = Agent.objects.order_by("name")
    if need.model:
        agents = agents.filter(Exists(need.model._default_manager.filter(agent=OuterRef("pk"))))
    fitting = list(agents[: MOST_NAMED + 1])
    if len(fitting) == 1:
        report("log", {"text": f"agent: {fitting[0]}, the only one{f' with {need.things}' if need.things else ''}"})
        return fitting[0]
    if not fitting:
        raise UsageError(
            f"no agent has {need.things} yet" if need.things else "there is no agent yet: see 'agent create'"
        )
    names = ", ".join(map(str, fitting[:MOST_NAMED])) + (", …" if len(fitting) > MOST_NAMED else "")
    raise UsageError(f"--agent is missing: several have {need.things or 'a name'}: {names}")
