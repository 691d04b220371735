"""Answers that people judged, where they are right or wrong: a correction is first a test of the version that it corrects.

Right is one with a thumb up, or an edit that says the same; wrong one with a thumb down, or an edit that says something
else. Of what one person said about one answer the newest word counts, if it stands; a rating in the middle of its scale says
nothing."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import Case, F, Q, QuerySet, When

from rl.data_formatter.answer_kinds import AnswerKind, find_kind
from rl.models import Agent, ApiKey, Feedback, ModelVersion
from rl.models.traces import answered_by, ended_by_itself, may_be_used

NEWEST: Final = 2000
"""Feedback of an agent among which they are looked for: a page must not read all that there is."""
MIDDLE: Final = 0.5
"""A rating above it accepts an answer, one below rules it out."""
_KIND, _CHOICE = Feedback.Kind, Feedback.Choice
_OWN: Final = Q(kind=_KIND.RATING, value__gt=MIDDLE) | Q(kind=_KIND.COMPARISON, choice=_CHOICE.LEFT)
_ACCEPTS: Final = (
    Q(kind=_KIND.CORRECTION)
    | _OWN & ended_by_itself("trace__")
    | Q(kind=_KIND.COMPARISON, choice=_CHOICE.RIGHT) & ended_by_itself("other_trace__")
)
_COLUMNS: Final = (
    *("kind", "choice", "text", "user_id", "api_key__kind", "trace_id", "trace__prompt_key", "trace__response"),
    *("other_trace_id", "other_trace__response", "created_at"),
)


class AcceptedAnswer(NamedTuple):
    prompt_key: str
    answer: str
    trace_id: UUID
    """The answer that was edited, liked or better."""
    is_trusted: bool
    """Whoever said so signed in, has a secret key, or was imported: nobody in a browser alone."""
    said_at: datetime


def read_accepted(agent: Agent, most: int, newest: int = NEWEST) -> Iterator[AcceptedAnswer]:
    """The newest word first, at most so many, among the ``newest`` events; each answer once to a prompt, without runs of
    tools. One query."""
    events = Feedback.objects.filter(_ACCEPTS, may_be_used("trace__"), pk__in=newest_feedback(agent, newest))
    seen: set[tuple[str, str]] = set()
    for row in events.filter(trace__tool_calls=[]).order_by("-created_at", "id").values(*_COLUMNS)[:most]:
        side = "other_trace" if row["choice"] == _CHOICE.RIGHT else "trace"
        answer = (row["text"] if row["kind"] == _KIND.CORRECTION else row[f"{side}__response"]).strip()
        key = (row["trace__prompt_key"], answer)
        if answer and key not in seen:
            seen.add(key)
            in_browser = row["api_key__kind"] == ApiKey.Kind.PUBLISHABLE
            is_trusted = row["user_id"] is not None or not in_browser
            yield AcceptedAnswer(*key, row[f"{side}_id"], is_trusted, row["created_at"])


def newest_feedback(agent: Agent, newest: int = NEWEST) -> QuerySet[Feedback, Any]:
    """Keys of the last ones that are current, for a subquery: without it a database may read all traces of the agent."""
    current = Feedback.objects.filter(agent=agent, is_current=True)
    return current.order_by("-created_at", "id").values("pk")[:newest]


ACCEPTED: Final = 300
"""The newest thumbs up and edits, by which the kind of an agent's answers is told."""
MOST: Final = 500
"""Words of people on the answers of one version that are looked at."""
USER: Final = Case(When(trace__unit="", then=F("rater")), default=F("trace__unit"))
"""Who is one user: as the application names him, else whoever rated."""
_WORDS: Final = Q(kind__in=[Feedback.Kind.RATING, Feedback.Kind.CORRECTION], is_current=True)


class UserJudgement(NamedTuple):
    user: str
    value: float
    """1 for right, else 0."""


class Share(NamedTuple):
    right: int
    asked: int

    def __str__(self) -> str:
        return f"{self.right} of {self.asked}"


class _Word(NamedTuple):
    id: int
    trace: UUID
    rater: str
    user: str
    kind: str
    value: float | None
    text: str
    response: str
    rated_at: datetime


def kind_of_answers(agent: Agent) -> AnswerKind:
    """What they are by now: a training may have seen fewer. Runs with tools are left out. One query, none where the settings
    say that they are free."""
    if agent.answer_kind == Agent.AnswerKind.FREE:
        return find_kind((), agent.answer_kind)
    return find_kind((accepted.answer for accepted in read_accepted(agent, ACCEPTED)), agent.answer_kind)


def judged_answers(
    agent: Agent,
    version: ModelVersion | None,
    kind: AnswerKind,
    within: Q = Q(),  # noqa: B008  never changed
    *,
    newest: bool = True,
    most: int = MOST,
) -> Iterator[UserJudgement]:
    """Those of the version, None: of the base model, are given as they were judged, from the ``newest`` or the oldest on.
    ``within``: which feedback. One query."""
    words = Feedback.objects.filter(_WORDS, answered_by(version, "trace__"), within, agent=agent)
    order = ("-created_at", "-id") if newest else ("created_at", "id")
    columns = ("id", "trace_id", "rater", USER, "kind", "value", "text", "trace__response", "rated_at")
    last: dict[tuple[UUID, str], _Word] = {}
    for word in map(_Word._make, words.order_by(*order).values_list(*columns)[:most]):
        known = last.setdefault((word.trace, word.rater), word)
        if (word.rated_at, word.id) > (known.rated_at, known.id):
            last[word.trace, word.rater] = word
    for word in last.values():
        if word.kind == Feedback.Kind.CORRECTION:
            yield UserJudgement(word.user, float(kind.is_right(word.response, [word.text])))
        elif word.value not in (None, MIDDLE):  # else nothing was said
            yield UserJudgement(word.user, float(word.value > MIDDLE))


def share_right(agent: Agent, version: ModelVersion | None, kind: AnswerKind) -> Share:
    """How many of the newest judged answers are right. One query."""
    newest = Q(pk__in=newest_feedback(agent))
    values = [judged.value for judged in judged_answers(agent, version, kind, newest)]
    return Share(int(sum(values)), len(values))
