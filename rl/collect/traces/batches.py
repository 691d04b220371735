"""Some hundred imported answers beside those that are here: what is new, what is known better now, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rl.collect.lookups import versions_named
from rl.collect.new_rows import RowMaker
from rl.collect.traces.imported import ImportedTrace
from rl.collect.traces.records import FACTS, as_json_items
from rl.collect.traces.rows import TraceRows, same_words
from rl.models import Agent, Trace, prompt_key

OTHER_ANSWER = "the id belongs to another answer of this agent"
_COPIED = (*FACTS, "occurred_at")
"""None says nothing; an empty list as an action is a decision."""
_LISTS = ("tool_calls", "reasoning_steps", "tasks")
_new_trace = RowMaker(Trace)


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
        self._rows = TraceRows((agent.pk, record.external_id) for record, agent in owned)
        agents = {agent.pk: agent for _, agent in owned}
        names = {record.model_version for record, _ in owned if record.model_version}
        self._versions = versions_named(names, agents.values())

    def decide(self, record: ImportedTrace, agent: Agent) -> Taken:
        values = self._values(record, agent)
        here = self._rows.get(agent.pk, record.external_id)
        if here is None:
            columns = {
                "agent_id": agent.pk,
                "external_id": record.external_id,
                "source": self._source,
                "prompt": [dict(message) for message in record.prompt],
                "prompt_key": record.prompt_key or prompt_key(record.prompt),
                "response": record.response,
                **values,
            }
            trace = _new_trace(columns, agent=agent)
            self._rows.add(trace)
            return Taken(record, trace, "imported")
        if not same_words(here, record.prompt, record.response, record.prompt_key):
            return Taken(record, None, OTHER_ANSWER)
        if values.get("occurred_at", here.occurred_at) >= here.occurred_at:
            values.pop("occurred_at", None)  # whoever says it was later learned of it later
        if "details" in values:
            values["details"] = _with(here.details, values["details"])
        return Taken(record, here, "updated" if self._rows.change(here, values) else "unchanged")

    def save(self) -> None:
        self._rows.save()

    def _values(self, record: ImportedTrace, agent: Agent) -> dict[str, Any]:
        """The columns that the record says something about."""
        values = {name: value for name in _COPIED if (value := getattr(record, name)) is not None}
        values |= {name: as_json_items(items) for name in _LISTS if (items := getattr(record, name))}
        if record.session_id:
            values["session_id"] = record.session_id
        details = dict(record.details)
        if record.model_version:
            version = self._versions.get((agent.pk, record.model_version.lower()))
            if version is None:
                details.setdefault("model_version", record.model_version)
            else:
                values["model_version_id"] = version.pk
        if details:
            values["details"] = details
        return values


def _with(details: Any, news: dict[str, Any]) -> dict[str, Any]:
    """What the newcomer does not mention stays, also within an object such as ``decision``; deeper values are whole."""
    known = details if isinstance(details, dict) else {}
    return {**known, **{name: _merge(known.get(name), value) for name, value in news.items()}}


def _merge(known: Any, news: Any) -> Any:
    return {**known, **news} if isinstance(known, dict) and isinstance(news, dict) else news
