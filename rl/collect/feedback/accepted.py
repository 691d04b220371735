"""The answers that people accept, told from the newest feedback: edited, liked, and better than another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet

from rl.models import Agent, ApiKey, Feedback
from rl.models.traces import ended_by_itself, may_be_used

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
    *("other_trace_id", "other_trace__response"),
)


class AcceptedAnswer(NamedTuple):
    prompt_key: str
    answer: str
    trace_id: UUID
    """The answer that was edited, liked or better."""
    is_trusted: bool
    """Whoever said so signed in, has a secret key, or was imported: nobody in a browser alone."""


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
            yield AcceptedAnswer(*key, row[f"{side}_id"], row["user_id"] is not None or not in_browser)


def newest_feedback(agent: Agent, newest: int = NEWEST) -> QuerySet[Feedback, Any]:
    """Keys of the last ones that are current, for a subquery: without it a database may read all traces of the agent."""
    current = Feedback.objects.filter(agent=agent, is_current=True)
    return current.order_by("-created_at", "id").values("pk")[:newest]
