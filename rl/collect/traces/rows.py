"""The one place that finds answers by their external ids, decides whether they have the same words, and writes them.

An answer is known by its agent and its external id. Two who store the same one at the same moment meet at the unique index,
and the second looks again."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID, uuid5

from django.db import IntegrityError
from django.db.models import Q, QuerySet
from django.db.models.functions import Lower

from rl.base.answer_ids import as_id
from rl.base.errors import RunConflict
from rl.base.records import Message
from rl.collect.inserting import RowMaker, insert_rows
from rl.collect.traces.imported import ImportedRemark, ImportedTrace
from rl.collect.traces.records import FACTS, as_json_items
from rl.models import Agent, ModelVersion, RunPart, Trace, prompt_key
from rl.models.whole_rows import placeholders, read_rows

ATTEMPTS = 5
STORED_BY_OTHERS = "the same answers are being stored by others; try again"
Key = tuple[int, str]
"""Agent and external id."""
Result = TypeVar("Result")
Item = TypeVar("Item")


def find_traces(keys: Iterable[Key], traces: QuerySet[Trace] | None = None) -> dict[Key, Trace]:
    """Those that are here, in one query; of ``traces``, which also says what is read of them."""
    wanted: dict[int, set[str]] = {}
    for agent_id, external_id in keys:
        wanted.setdefault(agent_id, set()).add(external_id)
    if not wanted:
        return {}
    same = Q()
    for agent_id, external_ids in wanted.items():
        same |= Q(agent=agent_id, external_id__in=external_ids)
    rows = (Trace.objects.all() if traces is None else traces).filter(same).order_by()
    return {(trace.agent_id, trace.external_id or ""): trace for trace in rows}


_OF_RUNS: Final = UUID("6f0c6a55-5d2e-4a0e-9f0e-0f4f2d3c8b11")


def part_id(agent_id: int, external_id: str) -> UUID:
    """What an answer within a run is found by that has another name than the gateway's; the same for equal names."""
    return uuid5(_OF_RUNS, f"{agent_id}:{external_id}")


def run_ids(names: Iterable[str]) -> dict[str, UUID]:
    """The runs of answers by the names that the gateway gave to these; names of other answers are missing."""
    ids = [trace_id for name in names if (trace_id := as_id(name))]
    parts = RunPart.objects.filter(pk__in=ids).order_by() if ids else RunPart.objects.none()
    return {str(part): run for part, run in parts.values_list("pk", "trace_id")}


def run_id(name: UUID) -> UUID:
    """The run of an answer by the id that the gateway gave to it, else the same id."""
    return run_ids([str(name)]).get(str(name), name)


def same_words(here: Trace, prompt: Sequence[Message], response: str, prompt_key: str = "") -> bool:
    """Without a ``prompt_key`` the messages alone decide."""
    if prompt_key not in ("", here.prompt_key):
        return False
    return here.response == response and here.prompt == [dict(message) for message in prompt]


def chunks(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Lists of at most so many: each is written in a transaction of its own, so that nobody waits long."""
    left = iter(items)
    while chunk := list(islice(left, most)):
        yield chunk


class TraceRows:
    """The answers of one transaction beside those that are here: look for each with ``get``, ``add`` it or ``change`` what
    is here, then ``save`` all at once."""

    def __init__(self, keys: Iterable[Key], traces: QuerySet[Trace] | None = None) -> None:
        self._here = find_traces(keys, traces)
        self._new: list[Trace] = []
        self._changed: dict[UUID, Trace] = {}
        self._columns: set[str] = set()

    def get(self, agent_id: int, external_id: str) -> Trace | None:
        """Also one that was added: a list may name the same external id twice."""
        return self._here.get((agent_id, external_id))

    def add(self, trace: Trace) -> None:
        self._new.append(trace)
        if trace.external_id is not None:
            self._here[trace.agent_id, trace.external_id] = trace

    def change(self, trace: Trace, values: Mapping[str, Any]) -> bool:
        """False where all of it is known. Else the reward is due again."""
        known = {name: getattr(trace, name) for name in values}
        changes = {name: value for name, value in values.items() if value != known[name]}
        changes = {name: value for name, value in changes.items() if _floats(value) != _floats(known[name])}
        if not changes:
            return False
        for name, value in changes.items():
            setattr(trace, name, value)
        trace.reward_pending = True
        if not trace._state.adding:  # else it is about to be inserted
            self._changed[trace.pk] = trace
            self._columns |= changes.keys()
        return True

    def save(self, *, ignore_conflicts: bool = False) -> None:
        """Raises IntegrityError where somebody else stored one of the new answers meanwhile, unless that is of no matter."""
        if ignore_conflicts:
            Trace.objects.bulk_create(self._new, ignore_conflicts=True)
        else:
            insert_rows(self._new)
        if self._changed:
            columns = [*sorted(self._columns), "reward_pending"]
            Trace.objects.bulk_update(self._changed.values(), columns, batch_size=100)


def look_again(write: Callable[[], Result], refusal: str) -> Result:
    """What ``write`` gives, which has a transaction of its own; anew where the same external id was stored meanwhile, or an
    agent deleted. Raises RunConflict with the ``refusal`` when others keep doing so."""
    lost: IntegrityError | None = None
    for _ in range(ATTEMPTS):
        try:
            return write()
        except IntegrityError as error:
            lost = error
    raise RunConflict(refusal) from lost


def take_turns(agent_ids: Iterable[int]) -> None:
    """Two imports into one agent follow each other; people's ratings do not wait."""
    list(Agent.objects.select_for_update(no_key=True).filter(pk__in=agent_ids).order_by("pk").values_list("pk"))


def _floats(value: object) -> object:
    """PostgreSQL gives 1e23 back as a whole number, which is not quite the same one; tuples come back as lists."""
    return json.loads(json.dumps(value, default=str), parse_int=float)


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


OTHER_ANSWER = "the id belongs to another answer of this agent"
_COPIED = (*FACTS, "occurred_at")
"""None says nothing; an empty list as an action is a decision."""
_LISTS = ("tool_calls", "reasoning_steps", "tasks")
_new_trace = RowMaker(Trace)


@dataclass(frozen=True, slots=True)
class Taken:
    record: ImportedTrace | ImportedRemark
    trace: Trace | None
    """None: the answer was refused or is not here, and its feedback with it."""
    how: str
    """imported, updated, unchanged, or the reason why it was refused; empty for a remark."""


class TraceBatch:
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
        if "details" in values and not record.has_all_details:
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
    both = {name for name, value in news.items() if isinstance(value, dict) and isinstance(known.get(name), dict)}
    return {**known, **news, **{name: {**known[name], **news[name]} for name in both}}
