"""The first row that files of answers and opinions give, as a run would have it.

Answers are stored for an agent of their own, in a transaction that is taken back, and go the way of all rows."""

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Final, NamedTuple

from django.db import transaction

from rl.collect.importers.report import ImportSample
from rl.collect.traces.imported import ImportedFeedback, ImportedTrace
from rl.collect.traces.write import TraceStore
from rl.dataset_builder.capped import build_rows
from rl.dataset_builder.options import DataOptions
from rl.dataset_builder.read.groups import Tally
from rl.dataset_builder.read.ratings import DatabaseSource
from rl.models import Agent

METHOD: Final = "mpo"
"""Learns from every kind of opinion."""
_LIKED: Final = ImportedFeedback(kind="rating", rater="import", scale="thumb", value=1)


class FirstRow(NamedTuple):
    name: str
    """Says where it comes from; and where no answer is judged, that it is the row once somebody likes the answer."""
    agent: Agent
    """Whose base model would learn it; it may be new."""
    rows: list[dict[str, Any]]
    """The row in a list, as METHOD has it; or an empty one."""
    skipped: Counter[str]
    """Why there is none."""


def first_row(sample: ImportSample, source: str, agent: Agent | None) -> FirstRow | None:
    """None where the files hold no answers. ``source``: the format; ``agent``: owns what names none."""
    first = None
    for records in sample.judged or filter(None, [sample.first]):
        *others, last = records if sample.judged else [replace(records[0], feedback=(_LIKED,))]
        owner = agent or Agent.objects.filter(name__iexact=last.agent).first() or Agent.new(last.agent)
        when = "as it would be trained" if sample.judged else "as it would be if somebody liked it"
        first = FirstRow(f"{when}: {last.where}", owner, *_try(owner, source, [*others, last]))
        if first.rows:
            break
    return first


def stored_row(agent: Agent) -> FirstRow:
    """The agent's own first row, for files whose answers are here already."""
    tally = Tally()
    rows = [row for _, row in zip(range(1), _rows(agent, tally), strict=False)]
    return FirstRow(f"as it would be trained: {agent}", agent, rows, tally.skipped)


def _try(agent: Agent, source: str, records: Sequence[ImportedTrace]) -> tuple[list[dict[str, Any]], Counter[str]]:
    """The stand-in has the agent's name too, which decides how it is asked."""
    with transaction.atomic():
        Agent.objects.filter(name=agent.name).update(name=uuid.uuid4().hex)
        twin = copy(agent)
        twin.pk, twin._state = None, copy(agent._state)
        twin._state.adding = True
        twin.save()
        store, tally = TraceStore(source, agent=twin), Tally()
        store.take([replace(record, agent="") for record in records])
        rows = list(_rows(twin, tally))
        transaction.set_rollback(True)
    return rows[:1], store.report.skipped + tally.skipped


def _rows(agent: Agent, tally: Tally) -> Iterator[dict[str, Any]]:
    options = DataOptions(pair_type=agent.pair_type, min_samples=1)
    for part in build_rows(METHOD, agent, DatabaseSource(agent), options, tally).prompts():
        yield from part.rows
