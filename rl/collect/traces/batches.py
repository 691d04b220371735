"""Some hundred imported answers beside those that are here: what is new, what is known better now, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.utils import timezone

from rl.collect.lookups import versions_named
from rl.collect.traces.imported import ImportedTrace
from rl.collect.traces.records import stored
from rl.models import Agent, Trace, prompt_key

OTHER_ANSWER = "the id belongs to another answer of this agent"
_UPDATABLE = (
    "model_version_id", "session_id", "details", "tool_calls", "reasoning_steps", "tasks", "state", "action", "tokens_in",
    "tokens_out", "llm_calls", "cost", "duration_ms", "occurred_at",
)  # fmt: skip
_EMPTY: tuple[object, ...] = (None, "", [], {})
_SILENT: dict[str, tuple[object, ...]] = {"state": (None,), "action": (None,)}
"""Values that say nothing: an empty list is a decision too."""
_Key = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Taken:
    record: ImportedTrace
    trace: Trace | None
    """None: refused."""
    how: str
    """imported, updated, unchanged; else the reason why it was refused."""


class Batch:
    """The answers of one transaction: ``decide`` each, then ``save``."""

    def __init__(self, owned: Sequence[tuple[ImportedTrace, Agent]], source: str) -> None:
        self._source = source
        self._here = _known(owned)
        agents = {agent.pk: agent for _, agent in owned}
        names = {record.model_version for record, _ in owned if record.model_version}
        self._versions = versions_named(names, agents.values())
        self._new: list[Trace] = []
        self._changed: dict[_Key, Trace] = {}
        self._columns: set[str] = set()

    def decide(self, record: ImportedTrace, agent: Agent) -> Taken:
        key = (agent.pk, record.external_id)
        values = self._values(record, agent)
        here = self._here.get(key)
        if here is None:
            self._here[key] = trace = self._trace(record, agent, values)
            self._new.append(trace)
            return Taken(record, trace, "imported")
        if not _same_words(here, record):
            return Taken(record, None, OTHER_ANSWER)
        if values.get("occurred_at", here.occurred_at) >= here.occurred_at:
            values.pop("occurred_at", None)  # whoever says it was later learned of it later
        if "details" in values:
            values["details"] = _with(here.details, values["details"])
        changes = {name: value for name, value in values.items() if not same_json(getattr(here, name), value)}
        if not changes:
            return Taken(record, here, "unchanged")
        for name, value in changes.items():
            setattr(here, name, value)
        here.reward_pending = True
        if not here._state.adding:  # else it is about to be inserted
            self._changed[key] = here
            self._columns |= changes.keys()
        return Taken(record, here, "updated")

    def save(self) -> None:
        Trace.objects.bulk_create(self._new)
        if self._changed:
            columns = [*sorted(self._columns), "reward_pending"]
            Trace.objects.bulk_update(self._changed.values(), columns, batch_size=100)

    def _trace(self, record: ImportedTrace, agent: Agent, values: dict[str, Any]) -> Trace:
        prompt = [dict(message) for message in record.prompt]
        return Trace(
            agent=agent,
            external_id=record.external_id,
            source=self._source,
            prompt=prompt,
            prompt_key=record.prompt_key or prompt_key(record.prompt),
            response=record.response,
            **{"occurred_at": timezone.now(), **values},
        )

    def _values(self, record: ImportedTrace, agent: Agent) -> dict[str, Any]:
        """The columns that the record says something about."""
        version = self._versions.get((agent.pk, record.model_version.lower()))
        details = dict(record.details)
        if record.model_version and version is None:
            details.setdefault("model_version", record.model_version)
        values = {
            **{name: getattr(record, name) for name in _UPDATABLE if hasattr(record, name)},
            "details": details,
            "model_version_id": version.pk if version else None,
            **{name: stored(getattr(record, name)) for name in ("tool_calls", "reasoning_steps", "tasks")},
        }
        return {name: value for name, value in values.items() if value not in _SILENT.get(name, _EMPTY)}


def _known(owned: Iterable[tuple[ImportedTrace, Agent]]) -> dict[_Key, Trace]:
    wanted: dict[int, list[str]] = {}
    for record, agent in owned:
        wanted.setdefault(agent.pk, []).append(record.external_id)
    if not wanted:
        return {}
    same = Q()
    for agent_id, external_ids in wanted.items():
        same |= Q(agent=agent_id, external_id__in=external_ids)
    return {(trace.agent_id, trace.external_id or ""): trace for trace in Trace.objects.filter(same).order_by()}


def _with(details: Any, news: dict[str, Any]) -> dict[str, Any]:
    """What the newcomer does not mention stays, also within an object such as ``decision``; deeper values are whole."""
    known = details if isinstance(details, dict) else {}
    return {**known, **{name: _added(known.get(name), value) for name, value in news.items()}}


def _added(known: Any, news: Any) -> Any:
    return {**known, **news} if isinstance(known, dict) and isinstance(news, dict) else news


def _same_words(here: Trace, record: ImportedTrace) -> bool:
    prompt = [dict(message) for message in record.prompt]
    keys = (here.prompt_key, record.prompt_key or here.prompt_key)
    return here.prompt == prompt and here.response == record.response and keys[0] == keys[1]


def same_json(one: object, other: object) -> bool:
    """PostgreSQL gives 1e23 back as a whole number, which is not quite the same one; tuples come back as lists."""
    return one == other or _floats(one) == _floats(other)


def _floats(value: object) -> object:
    return json.loads(json.dumps(value, default=str), parse_int=float)
