"""The one place that finds answers by their external ids, decides whether they have the same words, and writes them: for the
API, the gateway, the importers and whatever else brings answers.

An answer is known by its agent and its external id. Two who store the same one at the same moment meet at the unique index,
and the second looks again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from django.db import IntegrityError
from django.db.models import Q, QuerySet

from rl.base.errors import RunConflict
from rl.base.records import Message
from rl.collect.inserting import insert_rows
from rl.models import Agent, RunPart, Trace

ATTEMPTS = 5
STORED_BY_OTHERS = "the same answers are being stored by others; try again"
Key = tuple[int, str]
"""Agent and external id."""
Result = TypeVar("Result")


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


def as_id(name: str) -> UUID | None:
    """Only as the gateway writes it: what else ``UUID`` reads, such as braces, is another name."""
    try:
        trace_id = UUID(name)
    except ValueError:
        return None
    return trace_id if str(trace_id) == name else None


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
        changes = {name: value for name, value in values.items() if not same_json(getattr(trace, name), value)}
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


def same_json(first: object, second: object) -> bool:
    """PostgreSQL gives 1e23 back as a whole number, which is not quite the same one; tuples come back as lists."""
    return first == second or _floats(first) == _floats(second)


def _floats(value: object) -> object:
    return json.loads(json.dumps(value, default=str), parse_int=float)
