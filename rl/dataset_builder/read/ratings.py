"""An agent's current feedback, prompt by prompt, in one pass over one query.

One statement sees one moment, so what arrives while the rows are written is neither read nor marked as read. The rows come
through a cursor in chunks; only the group at hand is in memory, and eight bytes for each event that was read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from rl.base.records import DirectPreference, Message, RatedAnswer
from rl.collect.command_center import widget_choice
from rl.dataset_builder.read.groups import BOTH_BAD, NEUTRAL, OTHER_PROMPT, OUTCOME, TIE, PromptGroup, Tally
from rl.models import Agent, Feedback, Trace
from rl.models.traces import may_be_used

CHUNK = 2000
"""Rows a fetch."""


class _Row(NamedTuple):
    """One event with its trace. The JSON columns come as text: a trace's are parsed once, not once for each rater."""

    id: int
    kind: str
    value: float | None
    choice: str
    text: str
    trace: UUID
    external_id: str | None
    key: str
    prompt: str
    response: str
    details: str
    other_trace: UUID | None
    other_key: str | None
    other_response: str | None


class DatabaseSource:
    name = "db"
    has_ids = True

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def scenarios(self) -> tuple[str, ...]:
        """Those of all of the agent's answers, the unrated ones included."""
        widgets = Trace.objects.filter(agent=self.agent, details__has_key="scenario").order_by()
        names = widgets.values_list("details__scenario", flat=True).distinct()
        return tuple(sorted(name for name in names if name and isinstance(name, str)))

    def groups(self, tally: Tally) -> Iterator[PromptGroup]:
        plan_for_all_rows()
        rows = map(_Row._make, _current_feedback(self.agent).iterator(chunk_size=CHUNK))
        for key, of_one_key in groupby(rows, key=attrgetter("key")):
            groups: dict[str, PromptGroup] = {}  # an importer's own key may stand for prompts in other words
            for _, of_one_trace in groupby(of_one_key, key=attrgetter("trace")):
                trace = list(of_one_trace)
                group = groups.setdefault(trace[0].prompt, PromptGroup(key))
                _add_trace(group, trace, tally)
            yield from groups.values()


def _current_feedback(agent: Agent) -> QuerySet[Feedback, tuple[Any, ...]]:
    """The columns of ``_Row``, in its order. The agent is asked of the trace, whose index is in the order wanted here."""
    return (
        Feedback.objects.filter(trace__agent=agent, is_current=True)
        .filter(may_be_used("trace__"), Q(other_trace=None) | may_be_used("other_trace__"))
        .exclude(kind=Feedback.Kind.RETRACTION)
        .order_by("trace__prompt_key", "trace_id", "id")
        .values_list(
            "id",
            "kind",
            "value",
            "choice",
            "text",
            "trace_id",
            "trace__external_id",
            "trace__prompt_key",
            Cast("trace__prompt", TextField()),
            "trace__response",
            Cast("trace__details", TextField()),
            "other_trace_id",
            "other_trace__prompt_key",
            "other_trace__response",
        )
    )


def plan_for_all_rows() -> None:
    """PostgreSQL plans a cursor for its first tenth. Just after an import, before it has looked at the new rows, that plan
    compares each answer with each rating: 6 s for 7,000 ratings, and growing with the square. Planned to its end: 0.2 s.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET cursor_tuple_fraction = 1.0")


def _add_trace(group: PromptGroup, rows: list[_Row], tally: Tally) -> None:
    prompt: tuple[Message, ...] = tuple(json.loads(rows[0].prompt))
    up: list[int] = []
    down: list[int] = []
    for row in rows:
        tally.saw(row.id)
        if row.kind == Feedback.Kind.RATING:
            _count_vote(row, up, down, tally.skipped)
        elif row.kind == Feedback.Kind.OUTCOME:
            tally.skipped[OUTCOME] += 1
        elif preference := _direct_preference(row, prompt, tally.skipped):
            group.direct.append(preference)
    if up or down:
        group.answers.append(_rated_answer(rows[0], prompt, up, down))


def _count_vote(row: _Row, up: list[int], down: list[int], skipped: Counter[str]) -> None:
    if row.value is None or row.value == 0.5:
        skipped[NEUTRAL] += 1
    else:
        (up if row.value > 0.5 else down).append(row.id)


def _rated_answer(row: _Row, prompt: tuple[Message, ...], up: list[int], down: list[int]) -> RatedAnswer:
    return RatedAnswer(
        answer_id=row.external_id or str(row.trace),
        prompt_key=row.key,
        prompt=prompt,
        response=row.response,
        up=len(up),
        down=len(down),
        feedback_ids=tuple(sorted(up + down)),
        widget=widget_choice(json.loads(row.details), prompt),
        trace_id=str(row.trace),
    )


def _direct_preference(row: _Row, prompt: tuple[Message, ...], skipped: Counter[str]) -> DirectPreference | None:
    left = (row.response, str(row.trace))
    if row.kind == Feedback.Kind.CORRECTION:
        return _preference(row, prompt, (row.text, ""), left)
    if row.choice in _NO_WINNER:
        skipped[_NO_WINNER[row.choice]] += 1
        return None
    if row.other_key != row.key:
        skipped[OTHER_PROMPT] += 1
        return None
    right = (row.other_response or "", str(row.other_trace))
    chosen, rejected = (left, right) if row.choice == Feedback.Choice.LEFT else (right, left)
    return _preference(row, prompt, chosen, rejected)


def _preference(
    row: _Row, prompt: tuple[Message, ...], chosen: tuple[str, str], rejected: tuple[str, str]
) -> DirectPreference:
    """``chosen`` and ``rejected``: a text, and the id of the answer that says so."""
    return DirectPreference(
        row.key, prompt, chosen[0], rejected[0], row.id, chosen_trace=chosen[1], rejected_trace=rejected[1]
    )


_NO_WINNER: dict[str, str] = {Feedback.Choice.TIE: TIE, Feedback.Choice.BOTH_BAD: BOTH_BAD}
