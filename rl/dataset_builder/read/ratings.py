"""An agent's current feedback, prompt by prompt, in one pass over one query.

One statement sees one moment, so what arrives while the rows are written is neither read nor marked as read. The rows come
through a cursor in chunks; only the group at hand is in memory, and eight bytes for each event that was read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import connection
from django.db.models import Q, QuerySet, TextField, Value
from django.db.models.functions import Cast

from rl.base.records import DirectPreference, Message, RatedAnswer, Vote
from rl.collect.command_center import widget_choice
from rl.data_formatter.opinions import BROKEN_OFF
from rl.data_formatter.runs import without_thought
from rl.dataset_builder.read.groups import (
    BOTH_BAD,
    NEUTRAL,
    OTHER_PROMPT,
    OUTCOME,
    TIE,
    PromptGroup,
    Tally,
    by_scenario,
)
from rl.dataset_builder.read.reliability import learn_reliability, pseudonym, weigh_picks, weigh_votes
from rl.dataset_builder.read.runs import CUT_CALLS, CannotBeRead, OfferedTools, Tools, parse_details, read_run
from rl.dataset_builder.wording import ask_agent
from rl.models import Agent, Feedback, Trace, prompt_key
from rl.models.traces import is_broken_off, may_be_used

if TYPE_CHECKING:
    from rl.raters.dawid_skene import Reliability


def as_text(column: str) -> Cast:
    """JSON, or an id."""
    return Cast(column, TextField())


def trace_id(text: str) -> str:
    """As ``str`` of a UUID: SQLite has its digits alone."""
    if len(text) != 32:
        return text
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Prompts:
    """The agent's, as its application asks them. Answers to one prompt follow each other: its text is parsed and hashed
    once."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._text: str | None = None
        self._stored: tuple[Message, ...] = ()
        self._asked: tuple[Message, ...] = ()
        self._split_key = ""

    def read(self, text: str) -> tuple[Message, ...]:
        if text != self._text:
            self._text, self._stored, self._split_key = text, tuple(json.loads(text)), ""
            self._asked = ask_agent(self._agent, self._stored)
        return self._asked

    def split_key(self) -> str:
        """The hash of the stored words of what was read last: other words for them hold out the same prompts."""
        self._split_key = self._split_key or prompt_key(self._stored)
        return self._split_key


CHUNK = 2000
"""Rows a fetch."""


class _Row(NamedTuple):
    """One event with its trace: columns of the query by their names. Ids and JSON come as text: a trace's are read once,
    not once for each rater."""

    id: int
    kind: str
    rater: str
    value: float | None
    choice: str
    text: str
    answer: str
    trace__external_id: str | None
    trace__prompt_key: str
    prompt: str
    trace__response: str
    details: str
    tool_calls: str
    thoughts: str
    other_answer: str | None
    other_trace__prompt_key: str | None
    other_trace__response: str | None
    other_details: str | None
    other_tool_calls: str | None
    other_thoughts: str | None


class DatabaseSource:
    name = "db"
    has_ids = True

    def __init__(self, agent: Agent, *, runs: bool = True, weigh: bool = True, sessions: Collection[str] = ()) -> None:
        """``runs``: with what was done before an answer; else its words alone. ``weigh``: votes by how often their raters
        are right, where that can be told; else all alike. ``sessions``: as in DataOptions."""
        self.agent, self._runs, self._weigh = agent, runs, weigh
        self._of = {"trace__session_id__in": tuple(sessions)} if sessions else {}

    def fixtures(self) -> dict[str, tuple[str, ...]]:
        """Those of all of the agent's answers, the unrated ones included."""
        widgets = Trace.objects.filter(agent=self.agent, details__has_key="scenario").order_by()
        return by_scenario(widgets.values_list("details__scenario", "details__fixture").distinct())

    def groups(self, tally: Tally) -> Iterator[PromptGroup]:
        plan_for_all_rows()
        reader = _Reader(self.agent, tally, self._runs, self._weigh)
        rows = map(_Row._make, _current_feedback(self.agent, self._of).iterator(chunk_size=CHUNK))
        for key, of_one_key in groupby(rows, key=attrgetter("trace__prompt_key")):
            groups: dict[str, PromptGroup] = {}  # an importer's own key may stand for prompts in other words
            for _, of_one_trace in groupby(of_one_key, key=attrgetter("answer")):
                trace = list(of_one_trace)
                reader.add(groups.setdefault(trace[0].prompt, PromptGroup(key)), trace)
            for group in groups.values():
                group.direct[:] = weigh_picks(reader.reliability, group.direct)
                yield group


def _current_feedback(agent: Agent, of: Mapping[str, Any]) -> QuerySet[Feedback, tuple[Any, ...]]:
    """The agent is asked of the trace, whose index is in the order wanted here."""
    return (
        Feedback.objects.filter(trace__agent=agent, is_current=True, **of)
        .filter(may_be_used("trace__"), Q(other_trace=None) | may_be_used("other_trace__"))
        .exclude(kind=Feedback.Kind.RETRACTION)
        .order_by("trace__prompt_key", "trace_id", "id")
        .annotate(**{"prompt": as_text("trace__prompt"), **_texts(agent, ""), **_texts(agent, "other_")})
        .values_list(*_Row._fields)
    )


def _texts(agent: Agent, side: str) -> dict[str, Any]:
    trace = f"{side}trace"
    return {
        f"{side}answer": as_text(f"{trace}_id"),
        f"{side}details": as_text(f"{trace}__details"),
        f"{side}tool_calls": as_text(f"{trace}__tool_calls"),
        f"{side}thoughts": thoughts_of(agent, f"{trace}__"),
    }


def thoughts_of(agent: Agent, prefix: str = "") -> Any:
    """The column of them, empty for an agent that does not think before it answers."""
    return as_text(f"{prefix}reasoning_steps") if agent.thinks else Value("")


def plan_for_all_rows() -> None:
    """PostgreSQL plans a cursor for its first tenth. Just after an import, before it has looked at the new rows, that plan
    compares each answer with each rating: 6 s for 7,000 ratings, and growing with the square. Planned to its end: 0.2 s."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET cursor_tuple_fraction = 1.0")


class _Answer(NamedTuple):
    text: str
    trace_id: str
    prompt: tuple[Message, ...]
    steps: tuple[Message, ...]
    tools: Tools
    details: dict[str, Any]


class _Reader:
    def __init__(self, agent: Agent, tally: Tally, runs: bool, weigh: bool) -> None:
        self._tally, self._prompts = tally, Prompts(agent)
        self._offered = OfferedTools(agent) if runs else None
        self.reliability = learn_reliability(agent) if weigh else None

    def add(self, group: PromptGroup, rows: list[_Row]) -> None:
        skipped = self._tally.skipped
        for row in rows:
            self._tally.saw(row.id)
        try:
            answer = self._run_of(rows[0])
        except CannotBeRead:
            skipped[CUT_CALLS] += len(rows)
            return
        votes: list[tuple[int, Vote]] = []
        for row in rows:
            if row.kind == Feedback.Kind.RATING:
                votes += _vote(row, skipped)
            elif row.kind == Feedback.Kind.OUTCOME:
                skipped[OUTCOME] += 1
            elif preference := _direct_preference(row, answer, skipped):
                group.direct.append(preference)
        if votes:
            group.answers.append(_rated_answer(rows[0], answer, votes, self.reliability))

    def _run_of(self, row: _Row) -> _Answer:
        """Raises CannotBeRead."""
        prompt, details, trace = self._prompts.read(row.prompt), parse_details(row.details), trace_id(row.answer)
        if self._offered is None:
            return _Answer(row.trace__response, trace, prompt, (), (), details)
        prompt, steps = read_run(prompt, row.trace__response, row.tool_calls, details, row.thoughts)
        return _Answer(row.trace__response, trace, prompt, steps, self._offered(details), details)


def _other_run(row: _Row, prompt: tuple[Message, ...]) -> _Answer:
    """The answer at the right of a comparison. Raises CannotBeRead."""
    response, details = row.other_trace__response or "", parse_details(row.other_details)
    run = read_run(prompt, response, row.other_tool_calls, details, row.other_thoughts)
    return _Answer(response, trace_id(row.other_answer or ""), prompt, run.steps, (), details)


def _vote(row: _Row, skipped: Counter[str]) -> list[tuple[int, Vote]]:
    if row.value is None or row.value == 0.5:
        skipped[NEUTRAL] += 1
        return []
    return [(row.id, Vote(pseudonym(row.rater), row.value > 0.5))]


def _rated_answer(
    row: _Row, answer: _Answer, votes: Sequence[tuple[int, Vote]], reliability: Reliability | None
) -> RatedAnswer:
    up, down = weigh_votes(reliability, [(vote.rater, vote.agrees) for _, vote in votes])
    return RatedAnswer(
        answer_id=row.trace__external_id or answer.trace_id,
        prompt_key=row.trace__prompt_key,
        prompt=answer.prompt,
        response=answer.text,
        up=up,
        down=down,
        feedback_ids=tuple(sorted([number for number, _ in votes])),
        widget=widget_choice(answer.details, answer.prompt) if answer.details else None,
        trace_id=answer.trace_id,
        votes=tuple([vote for _, vote in votes]),
        steps=answer.steps,
        tools=answer.tools,
        is_broken_off=is_broken_off(answer.details),
    )


def _direct_preference(row: _Row, left: _Answer, skipped: Counter[str]) -> DirectPreference | None:
    if row.kind == Feedback.Kind.CORRECTION:
        left = left._replace(steps=without_thought(left.steps))
        return _preference(row, left._replace(text=row.text, trace_id=""), left)
    if row.choice in _NO_WINNER:
        skipped[_NO_WINNER[row.choice]] += 1
        return None
    if row.other_trace__prompt_key != row.trace__prompt_key:
        skipped[OTHER_PROMPT] += 1
        return None
    try:
        right = _other_run(row, left.prompt)
    except CannotBeRead:
        skipped[CUT_CALLS] += 1
        return None
    better, worse = (left, right) if row.choice == Feedback.Choice.LEFT else (right, left)
    if is_broken_off(better.details):
        skipped[BROKEN_OFF] += 1
        return None
    return _preference(row, better, worse)


def _preference(row: _Row, chosen: _Answer, rejected: _Answer) -> DirectPreference:
    return DirectPreference(
        row.trace__prompt_key,
        chosen.prompt,
        chosen.text,
        rejected.text,
        row.id,
        chosen_trace=chosen.trace_id,
        rejected_trace=rejected.trace_id,
        rater=pseudonym(row.rater),
        chosen_steps=chosen.steps,
        rejected_steps=rejected.steps,
        tools=chosen.tools or rejected.tools,
    )


_NO_WINNER: dict[str, str] = {Feedback.Choice.TIE: TIE, Feedback.Choice.BOTH_BAD: BOTH_BAD}
