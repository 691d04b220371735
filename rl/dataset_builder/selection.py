"""An agent's current feedback, prompt by prompt, in one pass over one query.

One statement sees one moment, so what arrives while the rows are written is neither read nor marked as read. The rows come
through a cursor in chunks; only the group at hand is in memory, and eight bytes for each event that was read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db.models import CharField, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from rl.collect.command_center import widget_choice
from rl.dataset_builder.groups import (
    BOTH_BAD,
    NEUTRAL,
    OTHER_PROMPT,
    OUTCOME,
    TIE,
    Catalogue,
    PromptGroup,
    Tally,
)
from rl.models import Agent, Feedback, Trace
from rl.records import DirectPreference, Message, RatedAnswer

CHUNK = 2000
"""Rows a fetch."""

_COLUMNS = (
    "id", "kind", "value", "choice", "text",
    "other_trace__prompt_key", "other_trace__response",
    "trace_id", "trace__prompt_key", "trace__response", "prompt_json", "details_json",
)  # fmt: skip
_ID, _KIND, _VALUE, _CHOICE, _TEXT, _OTHER_KEY, _OTHER_RESPONSE, _TRACE, _KEY, _RESPONSE, _PROMPT, _DETAILS = range(12)
Row = Sequence[Any]


class DatabaseSource:
    name = "db"

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def catalogue(self) -> Catalogue:
        """What may be chosen is what the agent's answers chose, the unrated ones included."""
        return Catalogue(scenarios=self._distinct("scenario"), fixtures=self._distinct("fixture"))

    def groups(self, tally: Tally) -> Iterator[PromptGroup]:
        for key, rows in groupby(_current_feedback(self.agent).iterator(chunk_size=CHUNK), key=itemgetter(_KEY)):
            group = PromptGroup(key)
            for _, of_one_trace in groupby(rows, key=itemgetter(_TRACE)):
                _add_trace(group, list(of_one_trace), tally)
            yield group

    def _distinct(self, name: str) -> tuple[str, ...]:
        traces = Trace.objects.filter(agent=self.agent, details__has_key=name).order_by()
        values = traces.annotate(name=KeyTextTransform(name, "details")).values_list("name", flat=True).distinct()
        return tuple(sorted(value for value in values if value))


def _current_feedback(agent: Agent) -> QuerySet[Feedback, Row]:
    """The JSON columns come as text: a trace's are parsed once, not once for each of its raters."""
    return (
        Feedback.objects.filter(trace__agent=agent, is_current=True)
        .exclude(kind=Feedback.Kind.RETRACTION)
        .annotate(prompt_json=Cast("trace__prompt", TextField()), details_json=Cast("trace__details", TextField()))
        .order_by("trace__prompt_key", "trace_id", "id")
        .values_list(*_COLUMNS)
    )


def _add_trace(group: PromptGroup, rows: list[Row], tally: Tally) -> None:
    prompt: tuple[Message, ...] = tuple(json.loads(rows[0][_PROMPT]))
    up: list[int] = []
    down: list[int] = []
    for row in rows:
        tally.saw(row[_ID])
        if row[_KIND] == Feedback.Kind.RATING:
            _count_vote(row, up, down, tally.skipped)
        elif row[_KIND] == Feedback.Kind.OUTCOME:
            tally.skipped[OUTCOME] += 1
        elif preference := _direct_preference(row, prompt, tally.skipped):
            group.direct.append(preference)
    if up or down:
        group.answers.append(_rated_answer(rows[0], prompt, up, down))


def _count_vote(row: Row, up: list[int], down: list[int], skipped: Counter[str]) -> None:
    if row[_VALUE] == 0.5:
        skipped[NEUTRAL] += 1
    else:
        (up if row[_VALUE] > 0.5 else down).append(row[_ID])


def _rated_answer(row: Row, prompt: tuple[Message, ...], up: list[int], down: list[int]) -> RatedAnswer:
    return RatedAnswer(
        answer_id=str(row[_TRACE]),
        prompt_key=row[_KEY],
        prompt=prompt,
        response=row[_RESPONSE],
        up=len(up),
        down=len(down),
        feedback_ids=tuple(sorted(up + down)),
        widget=widget_choice(json.loads(row[_DETAILS]), prompt),
    )


def _direct_preference(row: Row, prompt: tuple[Message, ...], skipped: Counter[str]) -> DirectPreference | None:
    if row[_KIND] == Feedback.Kind.CORRECTION:
        return DirectPreference(row[_KEY], prompt, row[_TEXT], row[_RESPONSE], row[_ID])
    if row[_CHOICE] in (Feedback.Choice.TIE, Feedback.Choice.BOTH_BAD):
        skipped[TIE if row[_CHOICE] == Feedback.Choice.TIE else BOTH_BAD] += 1
        return None
    if row[_OTHER_KEY] != row[_KEY]:
        skipped[OTHER_PROMPT] += 1
        return None
    sides = (row[_RESPONSE], row[_OTHER_RESPONSE])
    chosen, rejected = sides if row[_CHOICE] == Feedback.Choice.LEFT else sides[::-1]
    return DirectPreference(row[_KEY], prompt, chosen, rejected, row[_ID])
