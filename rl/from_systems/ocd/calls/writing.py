"""Stores decisions: one or a thousand, with the same handful of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rest_framework.exceptions import APIException, NotFound

from rl.collect.traces.checks import problem
from rl.collect.traces.imported import ImportedTrace, Rejected
from rl.collect.traces.write import TOO_MANY_AGENTS, TraceStore
from rl.from_systems.ocd.records import read_decision
from rl.models import ApiKey, Trace
from rl.web.api.auth import by_external_id, visible_to
from rl.web.api.problems import BadRequest, Conflict

SOURCE = "decisions"
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Stored:
    trace: Trace
    created: bool
    """False: it was there already; what was new in it was added."""


def store(items: Sequence[Any], key: ApiKey) -> list[Stored | APIException]:
    """What became of each, in order. Agents that an unbound key names are created. Raises RunConflict when others keep
    storing the same."""
    parsed = [_read(item, key) for item in items]
    records = [record for record in parsed if isinstance(record, ImportedTrace)]
    here = _here(records, key)
    traces = TraceStore(SOURCE, agent=key.agent).take(records)
    stored = iter([_result(record, trace, here) for record, trace in zip(records, traces, strict=True)])
    return [next(stored) if isinstance(record, ImportedTrace) else record for record in parsed]


def _read(item: Any, key: ApiKey) -> ImportedTrace | APIException:
    record = read_decision(item, "the decision")
    if isinstance(record, Rejected):
        return BadRequest(record.reason)
    if reason := problem(record):
        return BadRequest(reason)
    if key.agent is None:
        return record if record.agent else BadRequest("agentType is missing: say whose decision it is")
    if record.agent and record.agent.lower() != key.agent.name.lower():
        return NotFound(f"there is no agent {record.agent!r}, or this key is not for it")
    return replace(record, agent=key.agent.name)


def _here(records: Sequence[ImportedTrace], key: ApiKey) -> set[_Key]:
    """Agent (lower case) and external id of those that are stored."""
    visible = visible_to(key, Trace.objects.order_by())
    rows = by_external_id(visible, [record.external_id for record in records])
    return {(name.lower(), external_id or "") for name, external_id in rows.values_list("agent__name", "external_id")}


def _result(record: ImportedTrace, trace: Trace | None, here: set[_Key]) -> Stored | APIException:
    """``here`` grows: a list may name the same decision twice."""
    known = (record.agent.lower(), record.external_id)
    if trace is None:
        return (
            Conflict(f"the id {record.external_id!r} belongs to another decision of this agent")
            if known in here
            else (BadRequest(TOO_MANY_AGENTS))
        )
    created = known not in here
    here.add(known)
    return Stored(trace, created)
