"""An agent's answers with all that tells how good they are, prompt by prompt, in one pass over one query.

As in ``ratings``: one statement sees one moment, and the rows come through a cursor, so that one answer is in memory."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import Exists, F, FilteredRelation, FloatField, Func, OuterRef, Q, QuerySet, TextField, Value

from rl.base.messages import asks_nothing
from rl.base.records import AnswerRating, JudgedAnswer
from rl.collect.command_center import widget_choice
from rl.data_formatter.runs import without_thought
from rl.dataset_builder.read.groups import NO_WORDS, Tally
from rl.dataset_builder.read.ratings import CHUNK, Prompts, as_text, plan_for_all_rows, thoughts_of, trace_id
from rl.dataset_builder.read.reliability import pseudonym
from rl.dataset_builder.read.runs import CUT_CALLS, CannotBeRead, OfferedTools, parse_details, read_run
from rl.models import Agent, Feedback, Trace
from rl.models.labels import LEAST_HEARD
from rl.models.traces import is_broken_off, may_be_used
from rl.rewards.decision import is_rater_of_decision

_SPACE = " \t\n\r\f\v"
_KINDS = (Feedback.Kind.RATING, Feedback.Kind.COMPARISON, Feedback.Kind.CORRECTION, Feedback.Kind.OUTCOME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    everything: bool = False
    """Answers that nobody and nothing judged as well."""
    proposals: bool = False
    """Answers with nothing but a proposed label as well."""
    follow_ups: bool = False
    """Answers with nothing but what was heard in a next message as well."""
    widgets: bool = False
    """What an answer chose."""


class _Row(NamedTuple):
    """One answer with one event, if it has one: columns of the query by their names. Ids and JSON come as text: they are
    read once for each answer."""

    trace: str
    prompt_key: str
    prompt_text: str
    response: str
    reward: float | None
    good: bool | None
    sure: float | None
    heard_good: bool | None
    heard_sure: float | None
    event__id: int | None
    event__kind: str | None
    event__rater: str | None
    event__value: float | None
    event__choice: str | None
    event__text: str | None
    calls: str
    details_text: str | None
    thoughts: str


def judged_answers(agent: Agent, tally: Tally, wanted: Wanted) -> Iterator[JudgedAnswer]:
    """By prompt key, then by text, then by id. The current feedback that was read goes into the tally."""
    plan_for_all_rows()
    both_bad = _other_sides_of_both_bad(agent)
    rows = map(_Row._make, _query(agent, wanted, bool(both_bad)).iterator(chunk_size=CHUNK))
    prompts, offered = Prompts(agent), OfferedTools(agent)
    for _, of_one_trace in groupby(rows, key=attrgetter("trace")):
        if answer := _answer(of_one_trace, prompts, both_bad, tally, offered, wanted):
            yield answer


def _both_bad(agent: Agent) -> QuerySet[Feedback]:
    picks = Feedback.objects.filter(agent=agent, kind=Feedback.Kind.COMPARISON, choice=Feedback.Choice.BOTH_BAD)
    return picks.filter(is_current=True).order_by()


def _other_sides_of_both_bad(agent: Agent) -> dict[str, list[AnswerRating]]:
    """Trace to the picks that it stands at the right of: the query finds an event at its left trace only."""
    picks: defaultdict[str, list[AnswerRating]] = defaultdict(list)
    for pk, trace, rater in _both_bad(agent).order_by("pk").values_list("pk", "other_trace_id", "rater"):
        picks[str(trace)].append(AnswerRating(pk, 0.0, pseudonym(rater)))
    return dict(picks)


def _query(agent: Agent, wanted: Wanted, both_bad: bool) -> QuerySet[Trace, tuple[Any, ...]]:
    current = Q(feedback__is_current=True, feedback__kind__in=_KINDS)
    answers = Trace.objects.filter(may_be_used(), agent=agent).annotate(
        event=FilteredRelation("feedback", condition=current),
        trace=as_text("id"),
        prompt_text=as_text("prompt"),
        calls=as_text("tool_calls"),
        details_text=as_text("details"),
        thoughts=thoughts_of(agent),
    )
    for prefix, row, is_wanted in (
        ("", "label_proposal", wanted.proposals),
        ("heard_", "follow_up", wanted.follow_ups),
    ):
        for name, column in (("good", "good"), ("sure", "confidence")):
            unknown = Value(None, FloatField())
            answers = answers.annotate(**{f"{prefix}{name}": F(f"{row}__{column}") if is_wanted else unknown})
    if not wanted.everything:
        judged = Q(event__id__isnull=False) | Q(reward__isnull=False)
        if both_bad:
            judged |= Q(Exists(_both_bad(agent).filter(other_trace=OuterRef("pk"))))
        for name, is_wanted in (("sure", wanted.proposals), ("heard_sure", wanted.follow_ups)):
            judged |= Q(**{f"{name}__isnull": False}) if is_wanted else Q()
        answers = answers.filter(judged)
    text = Func("response", Value(_SPACE), function="TRIM", output_field=TextField())
    return answers.order_by("prompt_key", text, "id", "event__id").values_list(*_Row._fields)


def _answer(
    rows: Iterator[_Row],
    prompts: Prompts,
    both_bad: Mapping[str, Sequence[AnswerRating]],
    tally: Tally,
    offered: OfferedTools,
    wanted: Wanted,
) -> JudgedAnswer | None:
    """``rows``: at least one. None: its prompt is blank, or its run cannot be read, which is counted."""
    row = next(rows)
    prompt, split_key = prompts.read(row.prompt_text), prompts.split_key()
    events = _events(chain((row,), rows), tally)
    if asks_nothing(prompt):
        tally.skipped[NO_WORDS] += 1
        return None
    details, trace = parse_details(row.details_text), trace_id(row.trace)
    try:
        run = read_run(prompt, row.response, row.calls, details, row.thoughts)
    except CannotBeRead:
        tally.skipped[CUT_CALLS] += 1
        return None
    return JudgedAnswer(
        trace_ids=(trace,),
        prompt_key=row.prompt_key,
        split_key=split_key,
        prompt=run.prompt,
        response=row.response,
        ratings=(*events.ratings, *both_bad.get(trace, ())),
        in_reward=tuple(events.in_reward),
        outcomes=tuple(events.outcomes),
        preferences=tuple(events.preferences),
        corrections=(events.correction,) if events.correction.strip() else (),
        proposed=None if row.good is None or row.sure is None else (row.good, row.sure),
        heard=_read_heard(row),
        reward=row.reward,
        steps=without_thought(run.steps) if events.correction.strip() else run.steps,
        tools=offered(details),
        widget=widget_choice(details, prompt) if wanted.widgets else None,
        is_broken_off=is_broken_off(details),
    )


def _read_heard(row: _Row) -> tuple[bool, float] | None:
    """None where it is not sure enough to count."""
    if row.heard_good is None or row.heard_sure is None or row.heard_sure < LEAST_HEARD:
        return None
    return row.heard_good, row.heard_sure


@dataclass(slots=True)
class _Events:
    ratings: list[AnswerRating] = field(default_factory=list)
    in_reward: list[int] = field(default_factory=list)
    outcomes: list[int] = field(default_factory=list)
    preferences: list[int] = field(default_factory=list)
    correction: str = ""


def _events(rows: Iterable[_Row], tally: Tally) -> _Events:
    """What people said about one answer; its one row has no event when nobody said anything."""
    events = _Events()
    for row in rows:
        number, rater = row.event__id, row.event__rater or ""
        if number is None:
            break
        tally.saw(number)
        if row.event__kind == Feedback.Kind.RATING and row.event__value is not None:
            events.ratings.append(AnswerRating(number, row.event__value, pseudonym(rater)))
            if is_rater_of_decision(rater):
                events.in_reward.append(number)
        elif row.event__choice == Feedback.Choice.BOTH_BAD:
            events.ratings.append(AnswerRating(number, 0.0, pseudonym(rater)))
        elif row.event__kind == Feedback.Kind.OUTCOME:
            events.outcomes.append(number)
        else:
            events.preferences.append(number)
            events.correction = row.event__text or events.correction
    return events
