"""Stores checked traces: one or a thousand, with the same handful of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from rest_framework.exceptions import APIException, NotFound, ValidationError

from rl.base.errors import UsageError
from rl.collect.feedback.tokens import Subject, read, sign
from rl.collect.feedback.waiting import deliver_by_id
from rl.collect.inserting import RowMaker
from rl.collect.traces.rows import TraceRows, agents_named, look_again, versions_named
from rl.models import Agent, ApiKey, ModelVersion, Trace, prompt_key

STORED_BY_OTHERS = "traces with the same external ids are being stored by others; try again"


@dataclass(frozen=True, slots=True)
class Stored:
    trace: Trace
    created: bool
    """False: the agent has a trace with this external id, which was left as it is."""
    token: str = ""
    """Lets a page rate it."""


def store(items: Sequence[dict[str, Any]], key: ApiKey) -> list[Stored | APIException]:
    """What became of each item, in order. ``items`` are validated data of TraceIn.

    Raises RunConflict when others keep storing the same external ids.
    """
    prepared = _prepare(items, key)
    traces = [trace for trace in prepared if isinstance(trace, Trace)]
    reserved = {row.pk for item, row in zip(items, prepared, strict=True) if "token" in item and isinstance(row, Trace)}
    stored = iter(look_again(partial(_insert, traces, reserved), STORED_BY_OTHERS))
    return [
        _with_token(next(stored), item) if isinstance(row, Trace) else row
        for item, row in zip(items, prepared, strict=True)
    ]


def _with_token(stored: Stored, item: dict[str, Any]) -> Stored:
    """For as many raters as the item asks for, else as the token that came with it."""
    raters = item.get("raters") or (read(item["token"]).raters if "token" in item else 1)
    return replace(stored, token=sign(Subject(stored.trace.pk, stored.trace.agent_id, raters)))


def _prepare(items: Sequence[dict[str, Any]], key: ApiKey) -> list[Trace | APIException]:
    agents = _agents({item["agent"] for item in items}, key)
    versions = versions_named({item["model_version"] for item in items if item.get("model_version")}, agents.values())
    return [_build_trace(item, agents, versions) for item in items]


def _agents(names: set[str], key: ApiKey) -> dict[str, Agent]:
    agents = agents_named(names)
    return {name: agent for name, agent in agents.items() if key.agent_id in (None, agent.pk)}


def _build_trace(
    item: dict[str, Any], agents: dict[str, Agent], versions: dict[tuple[int, str], ModelVersion]
) -> Trace | APIException:
    fields = dict(item)
    name, version_name, token = (fields.pop(name, None) for name in ("agent", "model_version", "token"))
    fields.pop("raters", None)
    agent = agents.get(name.lower())
    if agent is None:
        return NotFound(f"no agent is named {name!r}, or this key is not for it; agents are made in the admin")
    version = versions.get((agent.pk, version_name.lower())) if version_name else None
    if version_name and version is None:
        return ValidationError({"model_version": [f"{agent.name} has no version {version_name!r}"]})
    if token is not None:
        try:
            fields["id"] = _reserved_id(token, agent)
        except UsageError as error:
            return ValidationError({"token": [str(error)]})
    about = {"agent_id": agent.pk, "model_version_id": version and version.pk}
    return _new_trace(
        {**about, "prompt_key": prompt_key(fields["prompt"]), **fields}, agent=agent, model_version=version
    )


_new_trace = RowMaker(Trace)


def _reserved_id(token: str, agent: Agent) -> UUID:
    """Raises UsageError."""
    subject = read(token)
    if subject.agent_id != agent.pk:
        raise UsageError("the token was made for another agent")
    return subject.trace_id


def _insert(traces: list[Trace], reserved: set[UUID]) -> list[Stored]:
    """``reserved``: ids that were given before there was an answer; ratings may wait for these."""
    rows = TraceRows(
        ((trace.agent_id, trace.external_id) for trace in traces if trace.external_id is not None),
        Trace.objects.select_related("agent", "model_version"),
    )
    by_id = Trace.objects.select_related("agent", "model_version").in_bulk(reserved) if reserved else {}
    stored = [_decide(trace, rows, by_id) for trace in traces]
    with transaction.atomic():
        rows.save()
        deliver_by_id({row.trace.pk: row.trace for row in stored if row.created and row.trace.pk in reserved})
    return stored


def _decide(trace: Trace, rows: TraceRows, by_id: dict[UUID, Trace]) -> Stored:
    """``by_id`` gets what is added: two of a list may bring one token."""
    here = None if trace.external_id is None else rows.get(trace.agent_id, trace.external_id)
    here = here or by_id.get(trace.pk)
    if here is None:
        rows.add(trace)
        by_id[trace.pk] = trace
    return Stored(here or trace, created=here is None)
