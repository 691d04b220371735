"""Stores checked traces: one or a thousand, with the same handful of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from rest_framework.exceptions import APIException, NotFound, ValidationError

from rl.base.errors import RunConflict
from rl.collect.lookups import agents_named, versions_named
from rl.models import Agent, ApiKey, ModelVersion, Trace, prompt_key

ATTEMPTS = 3
ExternalId = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Stored:
    trace: Trace
    created: bool
    """False: the agent has a trace with this external id, which was left as it is."""


def store(items: Sequence[dict[str, Any]], key: ApiKey) -> list[Stored | APIException]:
    """What became of each item, in order. ``items`` are validated data of TraceIn.

    Raises RunConflict when others keep storing the same external ids.
    """
    prepared = _prepared(items, key)
    traces = [trace for trace in prepared if isinstance(trace, Trace)]
    stored = iter(_insert(traces))
    return [next(stored) if isinstance(item, Trace) else item for item in prepared]


def _prepared(items: Sequence[dict[str, Any]], key: ApiKey) -> list[Trace | APIException]:
    agents = _agents({item["agent"] for item in items}, key)
    versions = versions_named({item["model_version"] for item in items if item.get("model_version")}, agents.values())
    return [_unsaved(item, agents, versions) for item in items]


def _agents(names: set[str], key: ApiKey) -> dict[str, Agent]:
    found = agents_named(names)
    return {name: agent for name, agent in found.items() if key.agent_id in (None, agent.pk)}


def _unsaved(
    item: dict[str, Any], agents: dict[str, Agent], versions: dict[tuple[int, str], ModelVersion]
) -> Trace | APIException:
    fields = dict(item)
    name, version_name = fields.pop("agent"), fields.pop("model_version", None)
    agent = agents.get(name.lower())
    if agent is None:
        return NotFound(f"no agent is named {name!r}, or this key is not for it; agents are made in the admin")
    version = versions.get((agent.pk, version_name.lower())) if version_name else None
    if version_name and version is None:
        return ValidationError({"model_version": [f"{agent.name} has no version {version_name!r}"]})
    return Trace(agent=agent, model_version=version, prompt_key=prompt_key(fields["prompt"]), **fields)


def _insert(traces: list[Trace]) -> list[Stored]:
    lost: IntegrityError | None = None
    for _ in range(ATTEMPTS):
        known = _known(traces)
        decided = [_decide(trace, known) for trace in traces]
        try:
            with transaction.atomic():
                Trace.objects.bulk_create([stored.trace for stored in decided if stored.created])
            return decided
        except IntegrityError as error:  # the same external id was stored meanwhile: find it in the next round
            lost = error
    raise RunConflict("traces with the same external ids are being stored by others; try again") from lost


def _known(traces: list[Trace]) -> dict[ExternalId, Trace]:
    wanted: dict[int, list[str]] = {}
    for trace in traces:
        if trace.external_id is not None:
            wanted.setdefault(trace.agent_id, []).append(trace.external_id)
    if not wanted:
        return {}
    same = Q()
    for agent_id, external_ids in wanted.items():
        same |= Q(agent=agent_id, external_id__in=external_ids)
    rows = Trace.objects.filter(same).select_related("agent", "model_version")
    return {(row.agent_id, row.external_id or ""): row for row in rows}


def _decide(trace: Trace, known: dict[ExternalId, Trace]) -> Stored:
    """Remembers the new trace in ``known``: a list may name the same external id twice."""
    if trace.external_id is None:
        return Stored(trace, created=True)
    first = known.setdefault((trace.agent_id, trace.external_id), trace)
    return Stored(first, created=first is trace)
