"""Agents that come from another system start with what its documents say."""

from typing import Any

from rl.models import Agent

AGENT_DEFAULTS: dict[str, dict[str, Any]] = {"command_center": {"pair_type": Agent.PairType.BOTH}}
"""Format to fields of an agent; ``rl.from_systems`` adds its own when the app starts."""


def settle_in(agent: Agent, form: str, *, keep: bool = True) -> list[str]:
    """Gives an agent that has neither answers nor training sets these fields, where it has what every new agent has.

    ``keep``: saves it, where it is stored. Names of the fields that changed."""
    if agent.pk is not None and (agent.traces.exists() or agent.training_sets.exists()):
        return []
    usual, changed = Agent(), {}
    for name, value in AGENT_DEFAULTS.get(form, {}).items():
        if getattr(agent, name) == getattr(usual, name) != value:
            changed[name] = value
            setattr(agent, name, value)
    if changed and keep and agent.pk is not None:
        agent.save(update_fields=[*changed])
    return [*changed]
