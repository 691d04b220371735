"""Agents and versions by name, whatever the case: one query for many names."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models.functions import Lower

from rl.models import Agent, ModelVersion
from rl.models.whole_rows import placeholders, read_rows


def agents_named(names: Iterable[str]) -> dict[str, Agent]:
    """By lower-case name; a name that no agent has is missing."""
    wanted = {name.lower() for name in names}
    if not wanted:
        return {}
    agents = read_rows(Agent, f"LOWER(name) IN ({placeholders(wanted)})", [*wanted])
    return {agent.name.lower(): agent for agent in agents}


def versions_named(names: Iterable[str], agents: Iterable[Agent]) -> dict[tuple[int, str], ModelVersion]:
    """By agent and lower-case name."""
    wanted = {name.lower() for name in names}
    if not wanted:
        return {}
    versions = ModelVersion.objects.annotate(lower_name=Lower("name")).filter(
        agent__in=list(agents), lower_name__in=wanted
    )
    return {(version.agent_id, version.name.lower()): version for version in versions}
